# What a release says about the groups of a question: the posterior under the law that it states, and what the noisy
# values say by themselves, without any prior ("raw").

FEW_GROUPS <- 4
PRIORS <- 6
MANY_GROUPS <- 60
NEGLIGIBLE_WEIGHT <- 1e-4
LEAST_VARIANCE <- 1e-3
PAIRS <- 300
UNSEEN <- 2
EXTRA <- 0.05

# One exact posterior: from Dirichlet draws, or from the least noisy table that holds the question.
gather <- function(release, tables, estimand, prior) {
  if (release$about$inference$kind == "draws") return(from_draws(release, estimand, prior))
  from_noisy(release, tables, estimand, prior)
}

from_draws <- function(release, estimand, prior) {
  records <- release$records
  if (is.null(records) && !isTRUE(release$about$public_total)) {
    unsupported("the number of records behind this release is not public (unit add_remove), and a Dirichlet draw does ",
                "not tell it; the posterior of a share needs it.")
  }
  if (is.null(records)) unsupported("the release does not state how many records it was made from.")
  if (records == 0) refuse("this release was made from no records; nothing can be inferred from it.")
  laws <- release$about$inference$draws
  known <- vapply(laws, function(copy) all(vapply(copy, function(one) one$mechanism, "") == "dirichlet_multinomial"), NA)
  if (!all(known)) unsupported("the law of these draws is not known to the exact posterior.")
  stratified <- length(laws[[1]]) > 1
  fixed <- texts(release$about$fixed)
  margin <- in_order(release, c(estimand$margin, if (stratified) fixed))
  possible <- possible_cells(release, margin)
  labels <- widened(release, estimand$labels, estimand$margin, margin)
  copies <- length(release$rows)
  counts <- do.call(rbind, lapply(seq_len(copies), function(copy) counts_of(release, copy, margin)))
  strata_of <- rep(0, length(labels))
  if (stratified) {
    strata_of <- widened(release, seq_len(prod(shape_of(release, fixed))) - 1, fixed, margin)
    if (isTRUE(release$about$inference$rows_are_apportioned)) {
      unsupported("the rows of this release were apportioned to strata whose sizes it does not state.")
    }
  }
  strata <- list()
  raw <- NULL
  for (number in sort(unique(strata_of))) {
    inside <- strata_of == number & possible > 0
    own <- lapply(laws, function(copy) copy[[if (stratified) number + 1 else 1]])
    size <- if (stratified) as.numeric(own[[1]]$rows) else records
    if (size == 0 || !any(inside)) next
    groups <- sort(unique(labels[inside]))
    place <- factor(labels[inside], levels = groups)
    added <- function(values) as.numeric(rowsum(values, place)[as.character(groups), 1])
    released <- do.call(rbind, lapply(seq_len(copies), function(copy) added(counts[copy, inside])))
    alpha <- do.call(rbind, lapply(own, function(law) law$prior_count * added(possible[inside])))
    made <- function(g) draws_posterior(released, size, alpha, g)
    strata <- c(strata, list(stratum_of(made, groups, size, prior)))
    if (!stratified && sum(released) > 0) raw <- raw_of_draws(released, alpha, records, groups, estimand$groups)
  }
  list(method = paste("exact posterior of", copies, "Dirichlet draw(s)"), groups = estimand$groups, records = records,
       strata = strata, warnings = character(), raw = raw, exact = TRUE)
}

# For each cell of a margin, how many cells of the full cross-tabulation it stands for and rules allow.
possible_cells <- function(release, margin) {
  wide <- in_order(release, c(margin, unlist(lapply(release$rules, names))))
  cells <- prod(shape_of(release, wide))
  if (cells > 2^26) unsupported("the structural zeros and this question together involve too many cells.")
  allowed <- allowed_cells(release, wide)
  grid <- grid_of(release, wide)
  flat <- flat_of(lapply(margin, function(name) grid[, name]), shape_of(release, margin))
  free <- release$about$cells / cells
  tabulate(flat[allowed] + 1, prod(shape_of(release, margin))) * free
}

# Values of the cells of a margin, repeated over the other attributes of a wider one.
widened <- function(release, values, narrow, wide) {
  grid <- grid_of(release, wide)
  values[flat_of(lapply(narrow, function(name) grid[, name]), shape_of(release, narrow)) + 1]
}

stratum_of <- function(made, groups, records, prior) {
  if (!is.null(prior) || length(groups) <= FEW_GROUPS) {
    posterior <- made(if (is.null(prior)) 0.5 else prior)
    return(list(posteriors = list(posterior), weights = 1, groups = groups, records = records))
  }
  count <- if (length(groups) <= MANY_GROUPS) PRIORS else PRIORS %/% 2
  strengths <- exp(seq(log(1 / length(groups)), 0, length.out = count))
  posteriors <- lapply(strengths, made)
  log <- vapply(posteriors, function(one) one$log_evidence, 0)
  weights <- exp(log - max(log))
  weights <- weights / sum(weights)
  kept <- weights > NEGLIGIBLE_WEIGHT
  list(posteriors = posteriors[kept], weights = weights[kept] / sum(weights[kept]), groups = groups, records = records)
}

# Draws of counts, of shares, and of shares once more given the same counts.
draw_evidence <- function(evidence, size) {
  counts <- matrix(0, size, evidence$groups)
  parts <- list()
  for (stratum in evidence$strata) {
    numbers <- as.numeric(stats::rmultinom(1, size, stratum$weights))
    drawn <- lapply(which(numbers > 0), function(place) {
      posterior <- stratum$posteriors[[place]]
      tables <- draw_tables(posterior, numbers[place])
      list(tables, draw_shares(posterior, tables), draw_shares(posterior, tables))
    })
    order <- sample.int(size)
    joined <- lapply(1:3, function(part) {
      do.call(rbind, lapply(drawn, function(one) one[[part]]))[order, , drop = FALSE]
    })
    own <- stratum$groups + 1
    counts[, own] <- counts[, own] + joined[[1]]
    parts <- c(parts, list(joined))
  }
  placed <- function(values, stratum) {
    shares <- matrix(0, size, evidence$groups)
    shares[, stratum$groups + 1] <- values
    shares
  }
  if (length(parts) == 1) {
    only <- evidence$strata[[1]]
    return(list(counts = counts, shares = placed(parts[[1]][[2]], only), again = placed(parts[[1]][[3]], only)))
  }
  # The sizes of strata are public. Their shares of the sampled population are not exactly known.
  sizes <- vapply(evidence$strata, function(one) one$records, 0) + 1 / length(parts)
  mixed <- lapply(2:3, function(part) {
    weights <- dirichlet(sizes, size)
    Reduce(`+`, lapply(seq_along(parts), function(number) {
      weights[, number] * placed(parts[[number]][[part]], evidence$strata[[number]])
    }))
  })
  list(counts = counts, shares = mixed[[1]], again = mixed[[2]])
}

dirichlet <- function(parameter, size) {
  gammas <- matrix(stats::rgamma(size * length(parameter), rep(parameter, each = size)), size)
  gammas / pmax(rowSums(gammas), TINY)
}

# Noisy counts added up over the cells of each group, and the number of noise terms in each sum.
collapse <- function(release, table, estimand) {
  allowed <- allowed_cells(release, table$margin)
  labels <- widened(release, estimand$labels, estimand$margin, table$margin)[allowed]
  groups <- sort(unique(labels))
  if (table$cells == "first") {
    if (length(groups) == 1) return(list(groups = groups, noisy = 0, cells = 1, measured = FALSE))
    first <- match(labels[1], groups)
    noisy <- c(0, 0)
    noisy[first] <- table$values
    return(list(groups = groups, noisy = noisy, cells = c(1, 1), measured = seq_along(groups) == first))
  }
  place <- match(labels, groups)
  noisy <- as.numeric(rowsum(table$values[allowed], place)[as.character(seq_along(groups)), 1])
  list(groups = groups, noisy = noisy, cells = tabulate(place, length(groups)), measured = rep(TRUE, length(groups)))
}

holds <- function(table, names) length(table$margin) > 0 && all(names %in% table$margin)

from_noisy <- function(release, tables, estimand, prior) {
  usable <- Filter(function(table) holds(table, estimand$margin), tables)
  unseen <- setdiff(estimand$margin, unlist(lapply(tables, function(table) table$margin)))
  if (length(unseen)) unsupported("this release measured nothing about ", paste(unseen, collapse = ", "), ".")
  if (!length(usable)) {
    unsupported("this release measured no table with all of ", paste(estimand$margin, collapse = ", "),
                " in it, so how they go together is an assumption of its model and not evidence.")
  }
  records <- release$records
  if (is.null(records) && isTRUE(release$about$public_total)) {
    unsupported("the release does not state how many records it was made from.")
  }
  collapsed <- lapply(usable, function(table) collapse(release, table, estimand))
  spread <- mapply(function(table, own) table$variance * max(own$cells), usable, collapsed)
  best <- which.min(spread)
  own <- collapsed[[best]]
  totals <- Filter(function(table) !length(table$margin), tables)
  total <- if (length(totals) && is.null(records)) totals[[1]] else NULL
  made <- function(g) {
    noisy_posterior(own$noisy, usable[[best]], records, g, own$cells, own$measured, total)
  }
  warnings <- character()
  if (length(usable) > 1) {
    warnings <- paste(length(usable), "measured tables could answer this; the least noisy one is used")
  }
  law <- paste0(usable[[best]]$law, "(scale = ", signif(usable[[best]]$scale, 6), ")")
  list(
    method = paste0("exact posterior of noisy counts (", law, ")"), groups = estimand$groups,
    records = records, strata = list(stratum_of(made, own$groups, records, prior)), warnings = warnings,
    raw = raw_of_counts(own, usable[[best]], records, estimand$groups), exact = TRUE
  )
}

# Shares of the groups without any prior, and how sampling and noise move them: raw$deviations(size).

placed_at <- function(values, places, groups) {
  found <- matrix(0, nrow(values), groups)
  found[, places + 1] <- values
  found
}

# Deviations of the shares of possible groups by the sampling of people; up to two more in every possible group.
sampled <- function(centre, records, size) {
  held <- pmax(centre, 0) * records + min(UNSEEN, EXTRA * records / length(centre))
  held <- held / sum(held)
  drawn <- t(stats::rmultinom(size, max(1, round(records)), held))
  sweep(drawn / records, 2, held)
}

# For each group the sum of `counts` noises of a table.
noise_of <- function(table, counts, size) {
  each <- rep(counts, each = size)
  if (table$law == "geometric") {
    leave <- -expm1(-1 / table$scale)
    times <- pmax(each, 1)
    drawn <- stats::rnbinom(length(each), times, leave) - stats::rnbinom(length(each), times, leave)
    return(matrix(drawn * (each > 0), size))
  }
  matrix(stats::rnorm(length(each)) * sqrt(table$variance * each), size)
}

raw_of_counts <- function(found, table, records, groups) {
  part <- counts_and_noise(found, table, records)
  if (is.null(part)) return(NULL)
  shares <- part$counts / part$total
  deviations <- function(size) {
    placed_at(part$noise(size) / part$total + sampled(shares, part$total, size), found$groups, groups)
  }
  list(shares = placed_at(matrix(shares, 1), found$groups, groups)[1, ], deviations = deviations, people = part$total)
}

# Noisy counts that add up to the total: the known noise of their sum is taken from the groups by their noise terms.
counts_and_noise <- function(found, table, records) {
  total <- if (is.null(records)) sum(found$noisy) else records
  if (total <= 0) return(NULL)
  counts <- found$noisy
  rest <- !found$measured
  if (any(rest)) counts[rest] <- (total - sum(counts[!rest])) / sum(rest)
  part <- if (!is.null(records) && !any(rest)) found$cells / sum(found$cells) else rep(0, length(counts))
  counts <- counts - part * (sum(counts) - total)
  noise <- function(size) {
    drawn <- noise_of(table, ifelse(rest, 0, found$cells), size)
    if (any(rest)) drawn[, rest] <- -rowSums(drawn[, !rest, drop = FALSE]) / sum(rest)
    drawn - outer(rowSums(drawn), part)
  }
  list(counts = counts, noise = noise, total = total)
}

# The shares of a Dirichlet draw are (a + x) / (A + n) on average. This is solved for x, as a mean over copies.
raw_of_draws <- function(released, alpha, records, places, groups) {
  rows <- rowSums(released)
  whole <- rowSums(alpha)
  solved <- function(drawn, copy) (drawn / max(rows[copy], 1) * (whole[copy] + records) - rep(alpha[copy, ], each = nrow(drawn)))
  over_copies <- function(tables) Reduce(`+`, Map(solved, tables, seq_along(rows))) / length(rows) / records
  found <- over_copies(lapply(seq_along(rows), function(copy) released[copy, , drop = FALSE]))[1, ]
  centre <- pmax(found, 0)
  centre <- centre / sum(centre)
  deviations <- function(size) {
    tables <- lapply(seq_along(rows), function(copy) {
      chances <- dirichlet(alpha[copy, ] + records * centre, size)
      t(apply(chances, 1, function(chance) stats::rmultinom(1, rows[copy], chance)))
    })
    away <- sweep(over_copies(tables), 2, centre) + sampled(centre, records, size)
    placed_at(away, places, groups)
  }
  times <- 1 + mean((whole + records) / pmax(rows, 1) + 1) / length(rows)
  list(shares = placed_at(matrix(found, 1), places, groups)[1, ], deviations = deviations, people = records / times)
}
