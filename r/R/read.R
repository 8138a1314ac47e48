# Reading an exported release: every file against its hash, then columns, labels, promise and noisy tables.

INDEX <- "understudy-r.json"
OF_INDEX <- "understudy-r.md5"
FORMAT <- "understudy export for R"
VERSION <- 1

# What is wrong with a file or a question; what the release cannot tell; what only the command line can do.
refuse <- function(...) {
  stop(structure(class = c("understudy_input", "error", "condition"), list(message = paste0(...), call = NULL)))
}

unsupported <- function(...) {
  stop(structure(class = c("understudy_unsupported", "error", "condition"), list(message = paste0(...), call = NULL)))
}

numbers <- function(x) as.numeric(unlist(x))
texts <- function(x) as.character(unlist(x))

read_release <- function(path) {
  if (!is.character(path) || length(path) != 1 || is.na(path)) refuse("path must be one text: the exported folder.")
  place <- file.path(path, INDEX)
  if (!dir.exists(path) || !file.exists(place)) {
    hint <- if (file.exists(file.path(path, "manifest.json"))) {
      " It is a release folder; export it first: understudy export RELEASE --to r"
    } else {
      ""
    }
    refuse(path, " is not a release exported for R: it has no ", INDEX, ".", hint)
  }
  check_index(path)
  about <- tryCatch(jsonlite::fromJSON(place, simplifyVector = FALSE), error = function(e) NULL)
  if (!is.list(about) || !identical(about$format, FORMAT)) {
    refuse(place, " cannot be read as the index of a release exported for R.")
  }
  if (!identical(as.numeric(about$version), VERSION)) {
    refuse(place, " has format version ", about$version, "; this package understands ", VERSION, ".")
  }
  check_files(path, about$files)
  if (!isTRUE(about$verified)) {
    warning("this release did not pass 'understudy verify' when it was exported; do not rely on what it promises.",
            call. = FALSE)
  }
  attributes <- about$attributes
  names(attributes) <- vapply(attributes, function(one) one$name, "")
  own <- vapply(attributes, function(one) isTRUE(one$own), NA)
  release <- list(
    path = normalizePath(path), about = about, columns = attributes, attributes = attributes[own],
    names = names(attributes)[own], records = about$records, rows = numbers(about$rows), cache = new.env()
  )
  release$rules <- lapply(about$impossible, function(rule) lapply(rule, numbers))
  release$tables <- read_noisy(release)
  structure(release, class = "understudy_release")
}

# The index has the hashes of all files but itself; its own is in a file beside it.
check_index <- function(path) {
  beside <- file.path(path, OF_INDEX)
  stated <- if (file.exists(beside)) substr(readLines(beside, n = 1, warn = FALSE), 1, 32) else ""
  if (!identical(unname(tools::md5sum(file.path(path, INDEX))), stated)) {
    refuse("'", INDEX, "' in ", path, " was changed after it was exported (its hash differs). Export the release again.")
  }
}

# Base R computes SHA-256 from version 4.5 on; before that MD5, which finds edits and accidents as well.
check_files <- function(path, files) {
  if (!is.list(files) || !length(files)) refuse("the index of ", path, " lists no files.")
  for (name in names(files)) {
    file <- file.path(path, name)
    if (basename(name) != name || !file.exists(file)) {
      refuse(path, " lacks the file '", name, "' that its index lists. Export the release again.")
    }
    stated <- files[[name]]
    sha256 <- get0("sha256sum", envir = asNamespace("tools"), mode = "function")
    same <- if (is.null(sha256)) {
      identical(unname(tools::md5sum(file)), stated$md5)
    } else {
      identical(unname(sha256(file)), stated$sha256)
    }
    if (!isTRUE(same) || file.size(file) != stated$bytes) {
      refuse("'", name, "' in ", path, " was changed after it was exported (its hash differs). Export the release ",
             "again, and change data frames instead of files.")
    }
  }
  beside <- setdiff(list.files(path, pattern = "^(synthetic_[0-9]+|noisy_tables)\\.csv$"), names(files))
  if (length(beside)) refuse(path, " holds '", beside[1], "', which its index does not list.")
}

read_plain <- function(file, ...) {
  tryCatch(
    utils::read.csv(file, check.names = FALSE, na.strings = "", encoding = "UTF-8", ...),
    error = function(e) refuse(file, " cannot be read as CSV; was it removed meanwhile? Export the release again.")
  )
}

read_noisy <- function(release) {
  values <- read_plain(file.path(release$path, "noisy_tables.csv"), colClasses = "numeric")
  lapply(release$about$noisy_tables, function(one) {
    mine <- values[values$table == one$table, ]
    list(
      table = one$table, label = one$label, margin = texts(one$margin), cells = one$cells, law = one$law,
      scale = one$scale, variance = one$variance, values = mine$value[order(mine$cell)],
      fixed = isTRUE(one$fixed_beforehand), after = isTRUE(one$after_choosing)
    )
  })
}

# The columns of one copy as they are in the file: numbers of levels, numbers, dates.
raw_table <- function(release, copy) {
  copies <- length(release$rows)
  if (!is.numeric(copy) || length(copy) != 1 || is.na(copy) || copy < 1 || copy > copies || copy != round(copy)) {
    refuse("copy must be a whole number from 1 to ", copies, ".")
  }
  key <- paste0("copy", copy)
  if (is.null(release$cache[[key]])) {
    kinds <- vapply(release$columns, function(one) if (one$kind == "date") "character" else "numeric", "")
    file <- file.path(release$path, paste0("synthetic_", copy, ".csv"))
    table <- read_plain(file, colClasses = unname(kinds), header = TRUE)
    if (ncol(table) != length(release$columns) || nrow(table) != release$rows[copy]) {
      refuse(file, " does not have the rows and columns that its index states.")
    }
    names(table) <- names(release$columns)
    release$cache[[key]] <- table
  }
  release$cache[[key]]
}

as.data.frame.understudy_release <- function(x, row.names = NULL, optional = FALSE, copy = 1, ...) {
  table <- raw_table(x, copy)
  for (name in names(table)) {
    table[[name]] <- as_column(table[[name]], x$columns[[name]])
  }
  if (!is.null(row.names)) rownames(table) <- row.names
  attr(table, "synthetic") <- x$about$text
  table
}

# A factor for levels, a Date for dates, a number otherwise; labels are kept as attributes, as other packages do.
as_column <- function(values, column) {
  if (length(column$levels)) {
    levels <- texts(column$levels)
    if (anyDuplicated(levels)) refuse("column '", column$name, "' has two levels that read the same.")
    values <- factor(levels[values], levels = levels, ordered = isTRUE(column$ordered))
    said <- texts(column$level_labels)
    if (length(said)) attr(values, "level_labels") <- stats::setNames(said, levels)
  } else if (column$kind == "date") {
    values <- as.Date(values)
  } else {
    if (isTRUE(column$integer) && all(abs(values) < 2^31, na.rm = TRUE)) values <- as.integer(values)
    if (length(column$special)) {
      codes <- vapply(column$special, function(one) one$code, 0)
      said <- vapply(column$special, function(one) {
        if (is.null(one$text)) one$label else paste0(one$text, ": ", one$label)
      }, "")
      attr(values, "labels") <- stats::setNames(codes, said)
    }
  }
  if (nzchar(column$label)) attr(values, "label") <- column$label
  values
}

print.understudy_release <- function(x, ...) {
  cat(x$about$text, "\n", sep = "")
  cat(length(x$rows), " table(s) of ", format(x$rows[1], big.mark = ","), " rows and ", length(x$columns),
      " columns, made by the method ", x$about$method, " of understudy ", x$about$package_version, "\n", sep = "")
  cat(promise(x)$lines, sep = "\n")
  cat(length(x$tables), " noisy table(s); see noisy_tables()\n", sep = "")
  invisible(x)
}

promise <- function(release) {
  check_release(release)
  stated <- release$about$promise
  list(
    guarantee = stated$guarantee_in_words, protected = stated$unit_in_words,
    parameters = stated$guarantee[names(stated$guarantee) != "guarantee"], unit = stated$unit,
    warnings = texts(stated$warnings), lines = texts(stated$lines), verified = isTRUE(release$about$verified)
  )
}

noisy_tables <- function(release) {
  check_release(release)
  found <- lapply(release$tables, function(one) {
    frame <- if (one$cells == "all" && length(one$margin)) {
      codes <- grid_of(release, one$margin)
      columns <- lapply(seq_along(one$margin), function(place) {
        called <- texts(release$attributes[[one$margin[place]]]$code_names)
        factor(called[codes[, place] + 1], levels = called)
      })
      names(columns) <- one$margin
      frame <- data.frame(columns, check.names = FALSE)
      frame$noisy_count <- one$values
      frame$possible <- allowed_cells(release, one$margin)
      frame
    } else {
      data.frame(noisy_count = one$values)
    }
    attr(frame, "label") <- one$label
    attr(frame, "noise") <- list(law = one$law, scale = one$scale, variance = one$variance)
    frame
  })
  names(found) <- vapply(release$tables, function(one) {
    if (length(one$margin)) paste(one$margin, collapse = " x ") else "total"
  }, "")
  found
}

check_release <- function(release) {
  if (!inherits(release, "understudy_release")) refuse("release must come from read_release().")
}

# Cells of a margin: codes count from 0, and the last attribute changes fastest.

shape_of <- function(release, margin) vapply(margin, function(name) as.numeric(release$attributes[[name]]$size), 0)

in_order <- function(release, names) release$names[release$names %in% names]

grid_of <- function(release, margin) {
  shape <- shape_of(release, margin)
  grid <- matrix(0, prod(shape), length(margin))
  for (place in seq_along(shape)) {
    each <- prod(shape[-seq_len(place)])
    grid[, place] <- rep(rep(seq_len(shape[place]) - 1, each = each), length.out = nrow(grid))
  }
  colnames(grid) <- margin
  grid
}

flat_of <- function(codes, shape) {
  flat <- 0
  for (place in seq_along(shape)) flat <- flat * shape[place] + codes[[place]]
  flat
}

# Which cells of a margin are possible; a rule counts only where the margin has all its attributes.
allowed_cells <- function(release, margin) {
  if (!length(margin)) return(TRUE)
  grid <- grid_of(release, margin)
  possible <- rep(TRUE, nrow(grid))
  for (rule in release$rules) {
    if (!all(names(rule) %in% margin)) next
    ruled <- rep(TRUE, nrow(grid))
    for (name in names(rule)) ruled <- ruled & grid[, name] %in% rule[[name]]
    possible <- possible & !ruled
  }
  possible
}

# The codes of one copy, for some attributes.
coded_rows <- function(release, copy, names) {
  table <- raw_table(release, copy)
  found <- lapply(names, function(name) codes_of(table[[name]], release$attributes[[name]]))
  names(found) <- names
  found
}

codes_of <- function(values, attribute) {
  if (attribute$kind == "date") values <- as.numeric(as.Date(values))
  if (length(attribute$levels)) {
    codes <- values - 1
  } else {
    edges <- numbers(attribute$edges)
    codes <- findInterval(values, edges, rightmost.closed = TRUE) - 1
    for (place in seq_along(attribute$special)) {
      codes[!is.na(values) & values == attribute$special[[place]]$code] <- attribute$bins + place - 1
    }
  }
  if (isTRUE(attribute$missing)) codes[is.na(codes)] <- attribute$size - 1
  if (anyNA(codes) || any(codes < 0 | codes >= attribute$size)) {
    refuse("column '", attribute$name, "' has a value that its schema does not allow.")
  }
  codes
}

counts_of <- function(release, copy, margin) {
  shape <- shape_of(release, margin)
  as.numeric(tabulate(flat_of(coded_rows(release, copy, margin), shape) + 1, prod(shape)))
}
