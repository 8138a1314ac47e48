# From a question to the few groups of people it is about, and the quantity as a function of their shares.
#
# Cells that play the same part in a question are one group. Every atom has the groups OUTSIDE (not in its subgroup) and
# EXCLUDED (missing) before its own; groups count from 0. A quantity takes a matrix of shares or counts of the groups,
# one row for each draw, and gives a matrix with one column for each output.

OUTSIDE <- 0
EXCLUDED <- 1
FIRST <- 2
LARGEST_GRID <- 4e6
LARGEST_TABLE <- 5000
TINY <- .Machine$double.xmin

own_of <- function(values) values[, -seq_len(FIRST), drop = FALSE]

make_estimand <- function(release, question) {
  margin <- in_order(release, question$used)
  shape <- shape_of(release, margin)
  if (prod(shape) > LARGEST_GRID) {
    unsupported("the question is about a table of ", prod(shape), " cells; at most ", LARGEST_GRID, " can be handled.")
  }
  codes <- grid_of(release, margin)
  parts <- lapply(question$atoms, make_part, release = release, codes = codes)
  second <- if (length(parts) > 1) parts[[2]]$count else 1
  key <- parts[[1]]$groups * second + (if (length(parts) > 1) parts[[2]]$groups else 0)
  distinct <- sort(unique(key))
  of_parts <- list(distinct %/% second, distinct %% second)
  members <- lapply(seq_along(parts), function(place) {
    diag(parts[[place]]$count)[of_parts[[place]] + 1, , drop = FALSE]
  })
  evaluate <- function(values, end = c("evaluate", "evaluate")) {
    results <- lapply(seq_along(parts), function(place) {
      part <- parts[[place]]
      own <- part[[end[place]]]
      (if (is.null(own)) part$evaluate else own)(values %*% members[[place]])
    })
    if (length(results) == 1) results[[1]] else results[[1]] - results[[2]]
  }
  list(
    question = question, margin = margin, labels = match(key, distinct) - 1, groups = length(distinct),
    names = if (length(parts) == 1) parts[[1]]$names else question$kind, parts = parts, members = members,
    evaluate = function(values) evaluate(values),
    lowest = function(values) evaluate(values, c("lowest", "highest")),
    highest = function(values) evaluate(values, c("highest", "lowest")),
    binned = any(vapply(parts, function(part) !is.null(part$lowest), NA)),
    losses = unique(unlist(lapply(parts, function(part) part$losses))),
    bounds = bounds_of(parts),
    axes = if (length(parts) == 1) parts[[1]]$axes else list()
  )
}

# The least and the most that a quantity can be.
bounds_of <- function(parts) {
  ends <- lapply(parts, function(part) {
    if (part$kind %in% c("proportion", "crosstab")) c(0, 1) else if (is.null(part$ends)) c(-Inf, Inf) else part$ends
  })
  if (length(ends) == 1) return(ends[[1]])
  c(ends[[1]][1] - ends[[2]][2], ends[[1]][2] - ends[[2]][1])
}

# How much of each row is in the subgroup of each part; in each group of by; left out for a missing value.
inside_of <- function(estimand, values) {
  lapply(estimand$members, function(member) rowSums(own_of(values %*% member)))
}
inside_groups <- function(estimand, values) {
  part <- estimand$parts[[1]]
  own <- own_of(values %*% estimand$members[[1]])
  if (!is.null(part$base)) {
    member <- diag(max(part$base) + 1)[part$base + 1, , drop = FALSE]
    return((own %*% member)[, part$base + 1, drop = FALSE])
  }
  if (!part$cells) return(NULL)
  each <- ncol(own) / part$cells
  sums <- vapply(seq_len(part$cells), function(cell) {
    rowSums(own[, (cell - 1) * each + seq_len(each), drop = FALSE])
  }, numeric(nrow(own)))
  matrix(sums, nrow = nrow(own))
}
excluded_of <- function(estimand, values) {
  do.call(pmax, lapply(estimand$members, function(member) (values %*% member)[, EXCLUDED + 1]))
}

make_part <- function(atom, release, codes) {
  keep <- if (is.null(atom$where)) rep(TRUE, nrow(codes)) else truth_of(atom$where, codes)
  asked <- c(asks_missing(atom$condition), asks_missing(atom$where))
  missing <- rep(FALSE, nrow(codes))
  for (name in setdiff(used_by(atom), asked)) {
    attribute <- release$attributes[[name]]
    if (isTRUE(attribute$missing)) missing <- missing | codes[, name] == attribute$size - 1
  }
  part <- switch(atom$kind,
    proportion = share_part(atom, codes),
    mean = mean_part(atom, release, codes),
    crosstab = table_part(atom, release, codes)
  )
  if (length(atom$by)) part <- grouped_part(part, atom, release, codes)
  part$kind <- atom$kind
  part$groups <- ifelse(missing, EXCLUDED, ifelse(keep, part$groups, OUTSIDE))
  part
}

share_part <- function(atom, codes) {
  holds <- truth_of(atom$condition, codes)
  if (!any(holds)) refuse("'", atom$text, "': no value that the schema allows meets the condition.")
  evaluate <- function(values) {
    inside <- own_of(values)
    matrix(inside[, 2] / pmax(rowSums(inside), TINY), ncol = 1)
  }
  list(groups = ifelse(holds, FIRST + 1, FIRST), count = 4, names = "proportion", evaluate = evaluate, cells = 0)
}

mean_part <- function(atom, release, codes) {
  attribute <- release$attributes[[atom$names]]
  low <- numbers(attribute$low)
  last <- numbers(attribute$last)
  mean_of <- function(points) {
    force(points)
    function(values) {
      inside <- own_of(values)
      (inside %*% points) / pmax(rowSums(inside), TINY)
    }
  }
  wide <- any(last > low)
  losses <- c(
    if (wide) paste0("'", attribute$name, "' is known by ", attribute$bins, " bins; the interval holds every place ",
                     "inside them, and the estimate takes the public density"),
    if (attribute$kind == "date") paste0("'", attribute$name, "' is a date, counted in days since 1970-01-01")
  )
  own <- codes[, atom$names]
  list(
    groups = ifelse(own < attribute$bins, FIRST + own, EXCLUDED), count = FIRST + attribute$bins, names = "mean",
    evaluate = mean_of(numbers(attribute$means)), lowest = if (wide) mean_of(low), highest = if (wide) mean_of(last),
    losses = losses, cells = 0, ends = c(min(low), max(last))
  )
}

table_part <- function(atom, release, codes) {
  found <- cells_named(atom$names, release, codes)
  total <- length(found$names)
  shape <- vapply(found$axes, length, 0)
  base <- NULL
  if (nzchar(atom$percent)) {
    each <- if (atom$percent == "row") shape[length(shape)] else prod(shape[-1])
    place <- seq_len(total) - 1
    base <- if (atom$percent == "row") place %/% each else place %% each
  }
  evaluate <- function(values) {
    inside <- own_of(values)
    if (is.null(base)) return(inside / pmax(rowSums(inside), TINY))
    whole <- inside %*% diag(max(base) + 1)[base + 1, , drop = FALSE]
    inside / pmax(whole, TINY)[, base + 1, drop = FALSE]
  }
  list(groups = FIRST + found$flat, count = FIRST + total, names = found$names, evaluate = evaluate, axes = found$axes,
       base = base, cells = 0)
}

# The same quantity in every group of some attributes: its groups of cells are repeated for each.
grouped_part <- function(part, atom, release, codes) {
  found <- cells_named(atom$by, release, codes)
  own <- part$count - FIRST
  repeated <- function(evaluate) {
    if (is.null(evaluate)) return(NULL)
    function(values) {
      inside <- own_of(values)
      columns <- lapply(seq_along(found$names), function(cell) {
        evaluate(cbind(0, 0, inside[, (cell - 1) * own + seq_len(own), drop = FALSE]))
      })
      do.call(cbind, columns)
    }
  }
  part$groups <- ifelse(part$groups >= FIRST, part$groups + own * found$flat, part$groups)
  part$count <- FIRST + own * length(found$names)
  part$names <- found$names
  part$cells <- length(found$names)
  part$axes <- found$axes
  part$evaluate <- repeated(part$evaluate)
  part$lowest <- repeated(part$lowest)
  part$highest <- repeated(part$highest)
  part
}

# The cell of a table of some attributes, without missing values, and what the cells are called.
cells_named <- function(wanted, release, codes) {
  axes <- lapply(wanted, function(name) {
    attribute <- release$attributes[[name]]
    utils::head(texts(attribute$code_names), attribute$size - as.numeric(isTRUE(attribute$missing)))
  })
  names(axes) <- wanted
  sizes <- vapply(axes, length, 0)
  if (prod(sizes) > LARGEST_TABLE) {
    unsupported("a table of ", prod(sizes), " cells was asked for; at most ", LARGEST_TABLE, " are shown.")
  }
  flat <- 0
  for (name in wanted) flat <- flat * sizes[[name]] + pmin(codes[, name], sizes[[name]] - 1)
  called <- ""
  for (name in wanted) {
    own <- paste0(name, "=", axes[[name]])
    called <- if (identical(called, "")) own else as.vector(t(outer(called, own, paste, sep = ", ")))
  }
  list(flat = flat, names = called, axes = axes)
}
