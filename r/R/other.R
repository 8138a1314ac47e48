# Other packages and programs: synthpop's class for synthetic tables, and the command line of understudy.

as_synds <- function(release, copies = NULL) {
  check_release(release)
  all_copies <- seq_along(release$rows)
  if (is.null(copies)) copies <- all_copies
  if (!is.numeric(copies) || !length(copies) || !all(copies %in% all_copies)) {
    refuse("copies must be numbers of copies from 1 to ", length(all_copies), ".")
  }
  tables <- lapply(copies, function(copy) {
    table <- as.data.frame(release, copy = copy)
    for (name in names(table)) if (is.factor(table[[name]])) table[[name]] <- plain_factor(table[[name]])
    attr(table, "synthetic") <- NULL
    table
  })
  columns <- names(tables[[1]])
  made <- stats::setNames(rep("understudy", length(columns)), columns)
  structure(list(
    call = match.call(), m = length(tables), syn = if (length(tables) == 1) tables[[1]] else tables, method = made,
    visit.sequence = stats::setNames(seq_along(columns), columns), predictor.matrix = NULL, smoothing = NULL,
    event = NULL, denom = NULL, proper = FALSE, n = release$rows[copies[1]], k = nrow(tables[[1]]), rules = NULL,
    rvalues = NULL, cont.na = stats::setNames(rep(list(NA), length(columns)), columns), semicont = NULL,
    drop.not.used = FALSE, drop.pred.only = FALSE, models = NULL, seed = NA, var.lab = NULL, val.lab = NULL,
    obs.vars = columns, numtocat = NULL, catgroups = NULL, strata.syn = NULL, strata.lab = NULL
  ), class = "synds")
}

plain_factor <- function(values) {
  factor(as.character(values), levels = levels(values), ordered = is.ordered(values))
}

understudy_command <- function(arguments, json = FALSE, program = Sys.getenv("UNDERSTUDY", "understudy")) {
  if (!is.character(arguments) || anyNA(arguments)) refuse("arguments must be texts, one for each word.")
  where <- Sys.which(program)
  if (!nzchar(where)) {
    refuse("the program '", program, "' was not found. Install it (pip install understudy), or name it: ",
           "Sys.setenv(UNDERSTUDY = \"/path/to/understudy\").")
  }
  if (json) arguments <- c(arguments, "--json")
  errors <- tempfile()
  on.exit(unlink(errors))
  said <- suppressWarnings(system2(where, shQuote(arguments), stdout = TRUE, stderr = errors, env = own_libraries()))
  code <- attr(said, "status")
  if (!is.null(code) && code != 0) {
    refuse("understudy ", arguments[1], " ended with code ", code, ": ",
           paste(trimws(readLines(errors, warn = FALSE)), collapse = " "))
  }
  text <- paste(as.character(said), collapse = "\n")
  if (json) jsonlite::fromJSON(text) else text
}

# R puts its own folders of libraries, the system's and Java's in front. A Python that finds those loads the wrong ones.
own_libraries <- function() {
  if (.Platform$OS.type != "unix") return(character())
  now <- strsplit(Sys.getenv("LD_LIBRARY_PATH"), ":", fixed = TRUE)[[1]]
  by_r <- now == file.path(R.home(), "lib") | grepl("^/usr/lib/[^/]+$|/lib/server$", now)
  paste0("LD_LIBRARY_PATH=", shQuote(paste(now[!by_r], collapse = ":")))
}
