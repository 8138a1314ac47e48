# Methods that choose their tables by noisy looks: tables from which an answer covers whatever was chosen, and the bias
# that a choice can cause at most (docs/theory/selection.md of understudy).

RARE <- 0.05
GAUSSIAN <- 2.0627
BOUNDED <- sqrt(2 * log(1 / RARE))
MOST_ROWS <- 20000
MOST_PAIRS <- 2000

fixed_tables <- function(release, estimand) {
  fixed <- Filter(function(table) table$fixed, release$tables)
  margins <- lapply(fixed, function(table) table$margin)
  wanted <- estimand$margin
  if (any(vapply(margins, function(margin) all(wanted %in% margin), NA))) return(fixed)
  all_margins <- lapply(release$tables, function(table) table$margin)
  if (is_share(estimand) && !joined_by(all_margins, wanted) && all(wanted %in% unlist(margins))) return(fixed)
  chosen <- any(vapply(all_margins, function(margin) all(wanted %in% margin), NA))
  if (!chosen && length(margins) && joined_by(margins, wanted)) fixed else NULL
}

later_tables <- function(release, estimand) {
  later <- Filter(function(table) table$after, release$tables)
  if (isTRUE(release$about$inference$chosen_in_turn)) { # the first table that holds the whole question
    later <- utils::head(Filter(function(table) all(estimand$margin %in% table$margin), later), 1)
  }
  margins <- lapply(later, function(table) table$margin)
  if (!length(later) || !all(estimand$margin %in% unlist(margins)) || !joined_by(margins, estimand$margin)) return(NULL)
  later
}

# The ways to an answer that covers whatever was chosen, the best first, by expected widths, which are public facts.
ways_around_choice <- function(release, estimand, level) {
  records <- if (is.null(release$records)) max(release$rows[1], 1) else release$records
  rows <- release$about$rows_per_unit
  z <- stats::qnorm((1 + level) / 2)
  width <- function(tables, chosen) {
    half <- z * sqrt(rows + noise_beside_sampling(release, tables, estimand, records))
    if (!chosen) return(half)
    room <- expected_room(release, estimand, records, noise_beside_sampling(release, tables, estimand, records), rows, level)
    if (room <= MOST_ROOM * half) half + room else Inf
  }
  ways <- list()
  fixed <- fixed_tables(release, estimand)
  later <- later_tables(release, estimand)
  if (!is.null(fixed)) ways <- c(ways, list(list(tables = fixed, chosen = FALSE)))
  if (!is.null(later)) ways <- c(ways, list(list(tables = later, chosen = TRUE)))
  if (length(ways) < 2) return(ways)
  ways[order(vapply(ways, function(way) width(way$tables, way$chosen), 0))]
}

noise_beside_sampling <- function(release, tables, estimand, records) {
  least <- function(wanted) {
    own <- Filter(function(table) all(wanted %in% table$margin), tables)
    min(Inf, vapply(own, function(table) table$variance * prod(shape_of(release, table$margin)), 0))
  }
  whole <- least(estimand$margin)
  if (is.infinite(whole)) {
    pairs <- if (length(estimand$margin) > 1) utils::combn(estimand$margin, 2, simplify = FALSE) else list()
    whole <- if (length(pairs)) max(vapply(pairs, least, 0)) else Inf
  }
  whole / max(records, 1)
}

free_of_choice <- function(release, estimand) {
  length(estimand$margin) == 1 && isTRUE(release$about$inference$measures_every_attribute)
}

NODES <- 400
HALVINGS <- 60

# Half of an interval that holds the truth whatever chose the table: one of `questions` chosen by the part `seen` of the
# error, which is normal like the rest, `own`.
half_width <- function(own, seen, level, questions) {
  z <- -stats::qnorm(((seq_len(NODES) - 0.5) / NODES) / (2 * questions))
  mapply(function(own, seen) {
    largest <- seen * z
    scale <- max(own, 1e-9 * (own + seen) + TINY)
    low <- 0
    high <- (own + seen) * -stats::qnorm((1 - level) / (2 * questions)) + TINY
    for (step in seq_len(HALVINGS)) {
      middle <- (low + high) / 2
      missed <- mean(stats::pnorm((largest - middle) / scale) + stats::pnorm(-(largest + middle) / scale))
      if (missed > 1 - level) low <- middle else high <- middle
    }
    high
  }, own, seen)
}

# The room that is enough whatever was looked at, and however sharply.
room_for_any_choice <- function(release, sampling, spread, level, of_shares) {
  questions <- release$about$inference$choice_among
  spread <- ifelse(is.finite(spread), spread, sampling)
  seen <- pmin(sampling, spread)
  own <- sqrt(spread^2 - seen^2)
  room <- half_width(own, seen, level, questions) - stats::qnorm((1 + level) / 2) * spread
  if (of_shares) room <- pmax(room, half_width(own, seen, level, questions / 2) - stats::qnorm(level) * spread)
  pmax(room, 0)
}

# By how much each interval has to reach further at both ends; `sampling` is the part of its standard error `spread`
# that is due to the sampling of people.
room_of_choice <- function(release, estimand, shares, records, sampling, spread, rows, level) {
  if (free_of_choice(release, estimand)) return(rep(0, length(estimand$names)))
  pmin(rows * bias_of_choice(release, estimand, shares, records),
       room_for_any_choice(release, sampling, spread, level, of_shares(estimand)))
}

expected_room <- function(release, estimand, records, noise, rows, level) {
  moved <- rows * expected_bias(release, estimand, records)
  if (free_of_choice(release, estimand) || !is.finite(noise)) return(moved)
  min(moved, room_for_any_choice(release, sqrt(rows), sqrt(rows + noise), level, of_shares(estimand)))
}

of_shares <- function(estimand) identical(as.numeric(estimand$bounds), c(0, 1))

# The most by which the choice can have moved each quantity, by the noise of the looks; infinite where that is unknown.
bias_of_choice <- function(release, estimand, shares, records) {
  if (free_of_choice(release, estimand)) return(rep(0, length(estimand$names)))
  if (!isTRUE(release$about$inference$bounded_by_looks)) return(rep(Inf, length(estimand$names)))
  slopes <- influence_of(estimand, shares)
  centred <- sweep(slopes, 2, as.numeric(shares %*% slopes))
  spread <- sqrt(as.numeric(shares %*% centred^2))
  pulls <- pulls_of(release, estimand, sweep(centred, 2, pmax(spread, TINY), `/`), records)
  sqrt(steepness(release, pulls)) * spread / sqrt(max(records, 1))
}

steepness <- function(release, pulls) {
  Reduce(`+`, lapply(release$about$inference$looks, function(look) look$repeats * steepest(look, pulls)),
         rep(0, ncol(pulls)))
}

steepest <- function(look, pulls) {
  largest <- apply(pulls, 2, max)
  switch(look$law,
    gaussian = (GAUSSIAN / look$scale)^2 * colSums(pulls^2),
    geometric = (pmin(BOUNDED * sqrt(colSums(pulls^2)), colSums(pulls)) / look$scale)^2,
    gumbel_max = (BOUNDED * largest / look$scale)^2,
    noisy_max = (BOUNDED * 2 * largest / look$scale)^2,
    rep(Inf, ncol(pulls))
  )
}

# How far each table of a look moves (in people) if the sampling error of a quantity is one standard deviation; read
# from the synthetic rows, which hold all attributes together.
pulls_of <- function(release, estimand, scores, records) {
  codes <- coded_rows(release, 1, release$names)
  size <- length(codes[[1]])
  taken <- if (size) seq(1, size, by = max(1, size %/% MOST_ROWS)) else integer()
  codes <- lapply(codes, function(one) one[taken])
  cell <- flat_of(codes[estimand$margin], shape_of(release, estimand$margin))
  own <- scores[estimand$labels[cell + 1] + 1, , drop = FALSE]
  most <- colMeans(abs(own))
  pairs <- utils::combn(release$names, 2, simplify = FALSE)
  if (length(pairs) > MOST_PAIRS || !length(taken)) {
    return(matrix(most, length(pairs), length(most), byrow = TRUE) * sqrt(records))
  }
  found <- t(vapply(pairs, function(pair) {
    at <- codes[[pair[1]]] * release$attributes[[pair[2]]]$size + codes[[pair[2]]]
    pmin(colSums(abs(rowsum(own, at))) / length(taken), most)
  }, numeric(ncol(own))))
  matrix(found, length(pairs)) * sqrt(records)
}

# The same in standard deviations of sampling, from public facts alone: all cells are taken as equally likely.
expected_bias <- function(release, estimand, records) {
  if (free_of_choice(release, estimand)) return(0)
  if (!isTRUE(release$about$inference$bounded_by_looks)) return(Inf)
  allowed <- allowed_cells(release, estimand$margin)
  cells <- allowed / sum(allowed)
  shares <- as.numeric(rowsum(cells, estimand$labels)[as.character(seq_len(estimand$groups) - 1), 1])
  slopes <- influence_of(estimand, shares)
  centred <- sweep(slopes, 2, as.numeric(shares %*% slopes))
  scores <- sweep(centred, 2, sqrt(as.numeric(shares %*% centred^2)), `/`)
  if (!all(is.finite(scores))) return(Inf)
  own <- cells * scores[estimand$labels + 1, , drop = FALSE]
  grid <- grid_of(release, estimand$margin)
  pairs <- utils::combn(release$names, 2, simplify = FALSE)
  pulls <- t(vapply(pairs, function(pair) {
    kept <- estimand$margin[estimand$margin %in% pair]
    at <- if (length(kept)) flat_of(lapply(kept, function(name) grid[, name]), shape_of(release, kept)) else rep(0, nrow(own))
    colSums(abs(rowsum(own, at))) * sqrt(records)
  }, numeric(ncol(own))))
  stats::median(sqrt(steepness(release, matrix(pulls, length(pairs)))))
}
