example_folder <- function() system.file("extdata", "release", package = "understudyr")

# A copy of the example that a test may damage.
copied_example <- function() {
  place <- tempfile("release")
  dir.create(place)
  file.copy(list.files(example_folder(), full.names = TRUE), place)
  place
}
