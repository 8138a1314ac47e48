test_that("a release becomes a synds object", {
  synthetic <- as_synds(read_release(example_folder()))
  expect_s3_class(synthetic, "synds")
  expect_equal(synthetic$m, 1)
  expect_s3_class(synthetic$syn, "data.frame")
  expect_error(as_synds(read_release(example_folder()), copies = 7), "from 1 to 1")
})

test_that("synthpop compares a release with observed tables", {
  skip_if_not_installed("synthpop")
  release <- read_release(example_folder())
  observed <- as.data.frame(release)[sample.int(2000, replace = TRUE), ]
  found <- synthpop::compare(as_synds(release), observed, plot = FALSE, print.flag = FALSE)
  expect_true(all(found$tab.utility[, "S_pMSE"] < 10))
  tables <- synthpop::utility.tables(as_synds(release), observed, plot = FALSE, print.flag = FALSE)
  expect_equal(nrow(tables$tabs), 10)
})

test_that("the command line is called, and its failures are errors", {
  expect_error(understudy_command("--version", program = "no-such-program"), "was not found")
  skip_if(!nzchar(Sys.which(Sys.getenv("UNDERSTUDY", "understudy"))), "understudy is not on the PATH")
  expect_match(understudy_command("--version"), "[0-9]+\\.[0-9]+")
  expect_error(understudy_command(c("verify", "no-such-release")), "not a release folder")
})
