test_that("a table has factors, labels and the rows that the index states", {
  release <- read_release(example_folder())
  people <- as.data.frame(release)
  expect_equal(nrow(people), 2000)
  expect_s3_class(people$sex, "factor")
  expect_true(is.ordered(people$education))
  expect_equal(attr(people$sex, "label"), "Sex at registration")
  expect_match(attr(people, "synthetic"), "NO ROW IS A PERSON")
  expect_true(anyNA(people$smokes))
  expect_type(people$age, "integer")
  expect_error(as.data.frame(release, copy = 2), "from 1 to 1")
})

test_that("the promise is told in words and numbers", {
  stated <- promise(read_release(example_folder()))
  expect_match(stated$guarantee, "epsilon = 4")
  expect_equal(stated$parameters$epsilon, "4")
  expect_match(stated$protected, "one unit")
  expect_true(stated$verified)
  expect_output(print(read_release(example_folder())), "SYNTHETIC DATA")
})

test_that("noisy tables have their attributes, counts and noise", {
  tables <- noisy_tables(read_release(example_folder()))
  one <- tables[["sex x education"]]
  expect_equal(nrow(one), 2 * 4)
  expect_equal(attr(one, "noise")$law, "geometric")
  noise <- sqrt(attr(one, "noise")$variance * sum(one$possible))
  expect_lt(abs(sum(one$noisy_count) - 2000), 6 * noise)
})

test_that("a file that was edited by hand is refused", {
  place <- copied_example()
  file <- file.path(place, "noisy_tables.csv")
  lines <- readLines(file)
  lines[2] <- sub(",[-0-9]+$", ",99999", lines[2])
  writeLines(lines, file)
  expect_error(read_release(place), "noisy_tables.csv' in .* was changed")
  other <- copied_example()
  index <- file.path(other, "understudy-r.json")
  writeLines(sub("\"scale\": [0-9.]+", "\"scale\": 0.1", readLines(index, encoding = "UTF-8")), index)
  expect_error(read_release(other), "understudy-r.json' in .* was changed")
})

test_that("a file that is lost, or one too many, is refused", {
  place <- copied_example()
  unlink(file.path(place, "synthetic_1.csv"))
  expect_error(read_release(place), "lacks the file 'synthetic_1.csv'")
  more <- copied_example()
  file.copy(file.path(more, "synthetic_1.csv"), file.path(more, "synthetic_2.csv"))
  expect_error(read_release(more), "does not list")
})

test_that("a file that disappears after reading is told", {
  place <- copied_example()
  release <- read_release(place)
  unlink(file.path(place, "synthetic_1.csv"))
  expect_error(suppressWarnings(as.data.frame(release)), "removed meanwhile")
})

test_that("other folders are refused with a hint", {
  expect_error(read_release("no such folder"), "not a release exported for R")
  place <- tempfile()
  dir.create(place)
  writeLines("{}", file.path(place, "manifest.json"))
  expect_error(read_release(place), "--to r")
  writeLines("{}", file.path(place, "understudy-r.json"))
  expect_error(read_release(reindexed(place, function(lines) "{")), "cannot be read")
  later <- reindexed(copied_example(), function(lines) sub("\"version\": 1", "\"version\": 2", lines))
  expect_error(read_release(later), "format version 2")
})

test_that("an export that did not pass verify warns, and its answers are not called valid", {
  place <- reindexed(copied_example(), function(lines) sub("\"verified\": true", "\"verified\": false", lines))
  expect_warning(release <- read_release(place), "did not pass")
  expect_equal(infer(release, "proportion(sex == 'F')")$estimates$label, "model-based")
})
