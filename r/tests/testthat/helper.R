example_folder <- function() system.file("extdata", "release", package = "understudyr")

# A copy of the example that a test may damage.
copied_example <- function() {
  place <- tempfile("release")
  dir.create(place)
  file.copy(list.files(example_folder(), full.names = TRUE), place)
  place
}

# The example with another index, as if it had been exported so.
reindexed <- function(place, change) {
  file <- file.path(place, "understudy-r.json")
  writeLines(change(readLines(file, encoding = "UTF-8")), file, useBytes = TRUE)
  writeLines(paste0(tools::md5sum(file), "  understudy-r.json"), file.path(place, "understudy-r.md5"))
  place
}
