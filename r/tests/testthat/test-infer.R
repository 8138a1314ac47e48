release <- read_release(example_folder())

test_that("an answer is near what the noisy table says, with an interval and a label", {
  set.seed(1)
  answer <- infer(release, "proportion(sex == 'F')")
  rows <- as.data.frame(answer)
  expect_equal(rows$label, "valid")
  expect_true(rows$low < rows$estimate && rows$estimate < rows$high)
  expect_lt(abs(rows$estimate - 0.5), 0.1)
  expect_output(print(answer), "95% from")
})

test_that("the same seed gives the same answer", {
  set.seed(3)
  first <- infer(release, "crosstab(sex, education)")
  set.seed(3)
  expect_identical(first, infer(release, "crosstab(sex, education)"))
})

test_that("tables have a column for each attribute, and shares add up to one", {
  set.seed(1)
  rows <- as.data.frame(infer(release, "crosstab(sex, education, percent='row')"))
  expect_equal(names(rows)[1:2], c("sex", "education"))
  expect_equal(as.character(rows$sex), rep(c("F", "M"), each = 4))
  expect_equal(as.numeric(tapply(rows$estimate, rows$sex, sum)), c(1, 1), tolerance = 0.05)
})

test_that("where and by can be arguments or part of the question", {
  set.seed(1)
  inside <- infer(release, "mean(age, where=sex == 'F')")
  set.seed(1)
  outside <- infer(release, "mean(age)", where = "sex == 'F'")
  expect_equal(inside$estimates, outside$estimates)
  set.seed(1)
  inside <- infer(release, "proportion(sex == 'F', by=education)")
  set.seed(1)
  outside <- infer(release, "proportion(sex == 'F')", by = "education")
  expect_equal(inside$estimates, outside$estimates)
})

test_that("what R does not compute is refused with the command that does", {
  for (question in c("count(sex == 'F')", "quantile(age, 0.9)", "smokes ~ age", "mean(age) / mean(age)",
                     "proportion(sex == 'F' and education == 'tertiary' and smokes == 'yes')")) {
    problem <- tryCatch(infer(release, question), error = identity)
    expect_s3_class(problem, "understudy_not_in_r")
    expect_match(conditionMessage(problem), "understudy infer RELEASE")
  }
})

test_that("questions that cannot be read say why", {
  expect_error(infer(release, "proportion(sex = 'F')"), "==")
  expect_error(infer(release, "proportion(sex == 'X')"), "no level 'X'")
  expect_error(infer(release, "proportion(six == 'F')"), "did you mean 'sex'")
  expect_error(infer(release, "mean(sex)"), "levels, not numbers")
  expect_error(infer(release, "proportion(region < 'North')"), "no order")
  expect_error(infer(release, "proportion(missing(sex))"), "no missing values")
  expect_error(infer(release, "proportion(sex == 'F'"), "its end is missing")
  expect_error(infer(release, "mean(age, where=age > 42)"), "cuts through a bin")
  expect_error(infer(release, "proportion(sex == 'F')", level = 2), "level")
  expect_error(infer(release, ""), "one text")
  expect_error(infer(release, "system('ls')"), "cannot be read")
  expect_error(infer(release, "proportion(sex == 'F')", records = 10), "leave out")
  expect_error(infer(list(), "mean(age)"), "read_release")
})

test_that("a release with survey weights is asked about its sample, or by the command line", {
  place <- reindexed(copied_example(), function(lines) sub("\"weights\": []", "\"weights\": [\"age\"]", lines, fixed = TRUE))
  weighted <- read_release(place)
  expect_error(infer(weighted, "proportion(sex == 'F')"), class = "understudy_not_in_r")
  expect_equal(infer(weighted, "proportion(sex == 'F')", weighted = FALSE)$estimates$label, "valid")
})
