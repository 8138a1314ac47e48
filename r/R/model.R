# All noisy tables of a release together: a log-linear model over the attributes of a question, and its posterior.
#
# Contrasts of k levels are the k - 1 orthonormal Helmert columns. Every cell of a measured table is a linear function of
# the number of records n and of F, the sum of the contrasts over the records. So all tables together are one linear
# measurement of (n, F), found by generalised least squares. The posterior is normal at its mode, corrected by importance
# weights (adaptive multiple importance sampling). See docs/theory/noise-aware.md of understudy.

MODELLED <- 1e-6
DRAWN <- 1500
MOST_EXCESS <- 3
MOST_WEIGHTED <- 45
MOST_NUMBERS <- 4e7
MOST_CELLS <- 60000
MOST_EFFECTS <- 400
DEGREES <- 8
ROUNDS <- 12
PER_ROUND <- 1000
LEAST_EFFECTIVE <- 400
LARGEST_WORK <- 2e10

is_share <- function(estimand) estimand$question$kind %in% c("proportion", "crosstab") && length(estimand$names) <= 150

joined_by <- function(margins, wanted) {
  if (length(wanted) < 2) return(TRUE)
  pairs <- utils::combn(wanted, 2)
  all(apply(pairs, 2, function(pair) any(vapply(margins, function(margin) all(pair %in% margin), NA))))
}

contrasts_of <- function(levels) {
  columns <- matrix(0, levels, levels - 1)
  for (place in seq_len(levels - 1)) {
    columns[seq_len(place), place] <- 1
    columns[place + 1, place] <- -place
    columns[, place] <- columns[, place] / sqrt(place * (place + 1))
  }
  columns
}

# Levels of each attribute that a question does not tell apart are one: the class of every level, from 0.
merged_levels <- function(release, estimand) {
  margin <- estimand$margin
  grid <- grid_of(release, margin)
  shape <- shape_of(release, margin)
  classes <- lapply(seq_along(margin), function(axis) {
    own <- grid[, axis]
    key <- vapply(seq_len(shape[axis]) - 1, function(code) paste(estimand$labels[own == code], collapse = " "), "")
    match(key, unique(key)) - 1
  })
  sizes <- vapply(classes, function(one) max(one) + 1, 0)
  flat <- flat_of(lapply(seq_along(margin), function(axis) classes[[axis]][grid[, axis] + 1]), sizes)
  possible <- which(allowed_cells(release, margin))
  allowed <- rep(FALSE, prod(sizes))
  allowed[flat[possible] + 1] <- TRUE
  example <- rep(1, prod(sizes))
  example[flat[rev(possible)] + 1] <- rev(possible)
  names(classes) <- margin
  list(classes = classes, sizes = stats::setNames(sizes, margin), allowed = allowed, example = example)
}

# A measured table summed to the attributes it shares with a question, and to classes of their levels.
reduced_table <- function(release, table, wanted, records, merged) {
  kept <- table$margin[table$margin %in% wanted]
  variance <- max(table$variance, LEAST_VARIANCE)
  allowed <- allowed_cells(release, table$margin)
  grid <- if (length(table$margin)) grid_of(release, table$margin) else matrix(0, 1, 0)
  if (table$cells == "first") {
    if (!identical(kept, table$margin)) return(NULL)
    places <- which(allowed)[1]
    values <- table$values
  } else {
    if (!length(kept) && !is.null(records)) return(NULL)
    places <- which(allowed)
    values <- table$values[places]
  }
  sizes <- merged$sizes[kept]
  flat <- flat_of(lapply(kept, function(name) merged$classes[[name]][grid[places, name] + 1]), sizes)
  if (!length(kept)) flat <- rep(0, length(places))
  cells <- sort(unique(flat))
  place <- match(flat, cells)
  counts <- tabulate(place, length(cells))
  list(
    margin = kept, cells = cells, values = as.numeric(rowsum(values, place)[as.character(seq_along(cells)), 1]),
    variances = variance * counts, excess = (if (table$law == "geometric") 3 else 0) / counts
  )
}

make_effects <- function(margin, sizes, margins, allowed) {
  if (prod(sizes) > MOST_CELLS) unsupported("the model over ", paste(margin, collapse = ", "), " has too many cells.")
  effects <- list()
  for (own in lapply(margins, function(one) margin[margin %in% one])) {
    for (size in seq_along(own)) {
      effects <- c(effects, utils::combn(own, size, simplify = FALSE))
    }
  }
  effects <- unique(effects)
  count <- sum(vapply(effects, function(effect) prod(sizes[effect] - 1), 0))
  if (count > MOST_EFFECTS) {
    unsupported("the model over ", paste(margin, collapse = ", "), " has ", count, " parameters; at most ", MOST_EFFECTS,
                ".")
  }
  possible <- which(allowed)
  codes <- codes_in(possible - 1, sizes)
  single <- lapply(seq_along(margin), function(axis) {
    contrasts_of(sizes[axis])[codes[, axis] + 1, , drop = FALSE]
  })
  names(single) <- margin
  columns <- matrix(0, length(possible), 0)
  prior <- numeric()
  for (effect in effects) {
    block <- matrix(1, length(possible), 1)
    for (name in effect) {
      own <- single[[name]]
      block <- do.call(cbind, lapply(seq_len(ncol(block)), function(one) block[, one] * own))
    }
    columns <- cbind(columns, block)
    spread <- if (length(effect) == 1) 2.5 else if (length(effect) == 2) 1.5 else 1
    prior <- c(prior, rep(spread^2, ncol(block)))
  }
  precision <- if (length(prior)) diag(1 / prior, length(prior)) else matrix(0, 0, 0)
  if (length(possible) < prod(sizes) && ncol(columns)) {
    # Structural zeros make effects coincide: a basis of what remains, with the prior it inherits.
    centred <- sweep(columns, 2, colMeans(columns))
    found <- svd(centred, nu = 0)
    kept <- found$v[, found$d > 1e-9 * max(found$d, 1e-300), drop = FALSE]
    precision <- solve(t(kept) %*% (prior * kept))
    columns <- columns %*% kept
  }
  list(margin = margin, sizes = sizes, possible = possible, columns = columns, precision = precision, codes = codes)
}

codes_in <- function(flat, sizes) {
  codes <- matrix(0, length(flat), length(sizes))
  for (axis in rev(seq_along(sizes))) {
    codes[, axis] <- flat %% sizes[axis]
    flat <- flat %/% sizes[axis]
  }
  codes
}

# Coefficients (1, contrasts) of the indicator of each given cell of a smaller margin.
as_functions <- function(effects, table) {
  if (length(table$margin)) {
    axes <- match(table$margin, effects$margin)
    inside <- flat_of(lapply(axes, function(axis) effects$codes[, axis]), effects$sizes[axes])
    indicators <- outer(inside, table$cells, `==`) * 1
  } else {
    indicators <- matrix(1, length(effects$possible), length(table$cells))
  }
  t(least_squares(cbind(1, effects$columns), indicators))
}

least_squares <- function(design, target) {
  found <- qr.coef(qr(design, tol = 1e-11), target)
  found[is.na(found)] <- 0
  matrix(found, ncol(design))
}

local_model <- function(release, tables, estimand) {
  wanted <- estimand$margin
  margins <- Filter(length, lapply(tables, function(table) table$margin))
  unseen <- setdiff(wanted, unlist(margins))
  if (length(unseen)) unsupported("this release measured nothing about ", paste(unseen, collapse = ", "), ".")
  if (!is_share(estimand) && !joined_by(margins, wanted)) {
    unsupported("this release measured no table with every two of ", paste(wanted, collapse = ", "),
                " in it, so how they go together is an assumption of its model and not evidence.")
  }
  records <- release$records
  if (is.null(records) && isTRUE(release$about$public_total)) {
    unsupported("the release does not state how many records it was made from.")
  }
  merged <- merged_levels(release, estimand)
  if (prod(merged$sizes) * max(estimand$groups, DRAWN) > MOST_NUMBERS) {
    unsupported("the model over ", paste(wanted, collapse = ", "), " is too large to be drawn in seconds.")
  }
  reduced <- Filter(Negate(is.null), lapply(tables, reduced_table, release = release, wanted = wanted,
                                            records = records, merged = merged))
  kept <- lapply(tables, function(table) table$margin[table$margin %in% wanted])
  kept <- unique(Filter(length, kept))
  effects <- make_effects(wanted, merged$sizes, kept, merged$allowed)
  list(margins = kept, effects = effects, tables = reduced, merged = merged, records = records,
       reduced = reduce_tables(effects, reduced, records))
}

reduce_tables <- function(effects, tables, records) {
  cells <- do.call(rbind, lapply(tables, function(table) as_functions(effects, table)))
  values <- unlist(lapply(tables, function(table) table$values))
  variances <- unlist(lapply(tables, function(table) table$variances))
  excess <- unlist(lapply(tables, function(table) table$excess))
  design <- if (is.null(records)) cells else cells[, -1, drop = FALSE]
  target <- values - (if (is.null(records)) 0 else records * cells[, 1])
  weighted <- design / variances
  noise <- solve(t(weighted) %*% design)
  noise <- (noise + t(noise)) / 2
  estimate <- as.numeric(noise %*% (t(weighted) %*% target))
  list(estimate = estimate, noise = noise, variances = variances, excess = excess, weights = noise %*% t(weighted))
}

# The posterior density of the parameters (the log of n last, where n is not public).
make_posterior <- function(local) {
  columns <- local$effects$columns
  width <- ncol(columns)
  known <- !is.null(local$records)
  if (known && local$records < 1) refuse("this release was made from no records; nothing can be inferred from it.")
  dimension <- width + !known
  post <- list(width = width, known = known, dimension = dimension)
  pairs <- NULL
  if (nrow(columns) * width^2 <= 2^23 && width) {
    upper <- which(upper.tri(diag(width), diag = TRUE), arr.ind = TRUE)
    products <- columns[, upper[, 1], drop = FALSE] * columns[, upper[, 2], drop = FALSE]
    pairs <- upper
  }
  post$totals <- function(parameters) {
    if (known) rep(local$records, nrow(parameters)) else exp(pmin(parameters[, dimension], 60))
  }
  post$shares <- function(parameters) {
    log <- parameters[, seq_len(width), drop = FALSE] %*% t(columns)
    log <- log - apply(log, 1, max)
    weights <- exp(log)
    weights / rowSums(weights)
  }
  covariances <- function(shares, means) {
    second <- if (is.null(pairs)) NULL else shares %*% products
    lapply(seq_len(nrow(shares)), function(one) {
      if (is.null(second)) {
        found <- crossprod(columns * shares[one, ], columns)
      } else {
        found <- matrix(0, width, width)
        found[pairs] <- second[one, ]
        found[pairs[, 2:1]] <- second[one, ]
      }
      found - tcrossprod(means[one, ])
    })
  }
  expected <- function(totals, means) if (known) totals * means else cbind(totals, totals * means)
  lifted <- function(total, covariance) {
    found <- local$reduced$noise
    own <- if (known) seq_len(width) else 1 + seq_len(width)
    found[own, own] <- found[own, own] + total * covariance
    found
  }
  scored <- score_mode(local, post, covariances, expected, lifted, columns)
  post$mode <- scored$mode
  post$spread <- scored$spread
  post$response <- scored$response
  frozen <- NULL
  work <- PER_ROUND * ROUNDS * (nrow(columns) * width^2 / 2 + dimension^3)
  if (work > LARGEST_WORK) frozen <- solve(t(chol(scored$total)))
  post$log_density <- function(parameters) {
    shares <- post$shares(parameters)
    totals <- post$totals(parameters)
    means <- shares %*% columns
    left <- matrix(local$reduced$estimate, nrow(parameters), length(local$reduced$estimate), byrow = TRUE) -
      expected(totals, means)
    if (is.null(frozen)) {
      covariance <- covariances(shares, means)
      log <- vapply(seq_len(nrow(parameters)), function(one) {
        factor <- tryCatch(chol(lifted(totals[one], covariance[[one]])), error = function(e) NULL)
        if (is.null(factor)) return(-Inf)
        scaled <- backsolve(factor, left[one, ], transpose = TRUE)
        -sum(log(diag(factor))) - 0.5 * sum(scaled^2)
      }, 0)
    } else {
      log <- -0.5 * rowSums((left %*% t(frozen))^2)
    }
    theta <- parameters[, seq_len(width), drop = FALSE]
    log <- log - 0.5 * rowSums((theta %*% local$effects$precision) * theta)
    if (known) log else log + width * parameters[, dimension]
  }
  post
}

# Fisher scoring, as in Python: the same steps from the same point, so that both stop at the same mode.
score_mode <- function(local, post, covariances, expected, lifted, columns) {
  width <- post$width
  dimension <- post$dimension
  first <- if (post$known) 0 else 1
  estimate <- local$reduced$estimate
  point <- rep(0, dimension)
  if (first) {
    found <- estimate[1]
    variance <- local$reduced$noise[1, 1]
    start <- if (found > 3 * sqrt(variance)) found else (found + sqrt(found^2 + 4 * dimension * variance)) / 2
    point[dimension] <- log(max(start, 1))
  }
  precision <- matrix(0, dimension, dimension)
  precision[seq_len(width), seq_len(width)] <- local$effects$precision
  slowed <- 1
  before <- Inf
  for (done in seq_len(80)) {
    row <- matrix(point, 1)
    shares <- post$shares(row)
    totals <- post$totals(row)
    means <- shares %*% columns
    covariance <- covariances(shares, means)[[1]]
    total <- lifted(totals, covariance)
    slope <- matrix(0, dimension, dimension)
    slope[first + seq_len(width), seq_len(width)] <- totals * covariance
    if (first) slope[, dimension] <- expected(totals, means)
    weighted <- solve(total, slope)
    information <- t(slope) %*% weighted + precision
    score <- t(weighted) %*% (estimate - as.numeric(expected(totals, means))) - precision %*% point
    if (first) score[dimension] <- score[dimension] + width
    step <- as.numeric(solve(information, score))
    decrement <- sum(score * step)
    moved <- if (width) max(abs(columns %*% step[seq_len(width)])) else 0
    if (first) moved <- max(moved, abs(step[dimension]))
    slowed <- if (decrement > 0.9 * before) max(0.1, slowed * 0.7) else min(1, slowed * 1.2)
    before <- decrement
    point <- point + step * slowed * min(1, 2 / max(moved, 1e-12))
    if (!all(is.finite(point))) unsupported("the mode of the posterior was not found: the search diverged.")
    if (decrement < 1e-4) break
  }
  spread <- solve(information)
  list(mode = point, spread = (spread + t(spread)) / 2, response = spread %*% t(weighted), total = total)
}

draw_posterior <- function(post, enough) {
  if (!post$dimension) {
    size <- ceiling(enough)
    return(list(parameters = matrix(0, size, 0), weights = rep(1 / size, size), effective = size))
  }
  centre <- post$mode
  spread <- post$spread
  proposals <- list()
  parameters <- matrix(0, 0, post$dimension)
  target <- mixture <- numeric()
  for (done in seq_len(ROUNDS)) {
    proposal <- t_proposal(centre, spread)
    drawn <- proposal$draw(PER_ROUND)
    if (length(proposals)) mixture <- log_add(mixture, proposal$log_density(parameters))
    proposals <- c(proposals, list(proposal))
    of_new <- Reduce(log_add, lapply(proposals, function(one) one$log_density(drawn)))
    parameters <- rbind(parameters, drawn)
    target <- c(target, post$log_density(drawn))
    mixture <- c(mixture, of_new)
    log <- target - mixture
    log[!is.finite(log)] <- -Inf
    if (all(log == -Inf)) unsupported("the posterior could not be evaluated at any draw.")
    weights <- exp(log - max(log))
    weights <- weights / sum(weights)
    effective <- 1 / sum(weights^2)
    if (effective >= enough) break
    # The moments of the draws, with weights flattened until enough draws count, shrunk if too few do.
    wanted <- min(max(5 * post$dimension, 100), 0.5 * PER_ROUND)
    flat <- flattened(weights, wanted)
    trust <- wanted / (wanted + post$dimension)
    mean <- colSums(flat * parameters)
    away <- sweep(parameters, 2, mean)
    spread <- trust * crossprod(flat * away, away) + (1 - trust) * spread
    centre <- centre + trust * (mean - centre)
  }
  list(parameters = parameters, weights = weights, effective = effective)
}

log_add <- function(a, b) {
  top <- pmax(a, b)
  top + log(exp(a - top) + exp(b - top))
}

t_proposal <- function(centre, spread) {
  factor <- t(chol(spread))
  inverse <- solve(factor)
  list(
    draw = function(size) {
      normal <- matrix(stats::rnorm(size * length(centre)), size)
      mixing <- rowMeans(matrix(stats::rnorm(size * DEGREES), size)^2)
      sweep((normal / sqrt(mixing)) %*% t(factor), 2, centre, `+`)
    },
    log_density = function(parameters) {
      away <- sweep(parameters, 2, centre) %*% t(inverse)
      -0.5 * (DEGREES + length(centre)) * log1p(rowSums(away^2) / DEGREES) - sum(log(diag(factor)))
    }
  )
}

flattened <- function(weights, wanted) {
  log <- log(weights / max(weights))
  low <- 0
  high <- 1
  for (step in seq_len(12)) {
    power <- if (step == 1) 1 else (low + high) / 2
    flat <- exp(pmax(power * log, -700))
    flat <- flat / sum(flat)
    if (1 / sum(flat^2) >= wanted) {
      if (step == 1) break
      low <- power
    } else {
      high <- power
    }
  }
  flat
}

resampled <- function(sample, size) {
  points <- (seq_len(size) - 1 + stats::runif(1)) / size
  places <- pmin(findInterval(points, cumsum(sample$weights) / sum(sample$weights)) + 1, length(sample$weights))
  sample$parameters[places[sample.int(size)], , drop = FALSE]
}

normal_draws <- function(post, size) {
  normal <- matrix(stats::rnorm(size * post$dimension), size)
  drawn <- sweep(normal %*% chol(post$spread), 2, post$mode, `+`)
  list(parameters = drawn, weights = rep(1 / size, size), effective = 0)
}

# Draws of the groups of a question from all tables together; from one exact posterior where weights are too uneven.
noise_aware <- function(release, tables, estimand, local, size) {
  post <- make_posterior(local)
  size <- min(size, max(DRAWN %/% 3, MOST_NUMBERS %/% nrow(local$effects$columns)))
  holding <- any(vapply(tables, holds, NA, names = estimand$margin))
  sample <- if (post$dimension <= MOST_WEIGHTED) {
    draw_posterior(post, max(size / 2, LEAST_EFFECTIVE))
  } else {
    normal_draws(post, size)
  }
  rough <- FALSE
  how <- "Laplace approximation with importance weights"
  if (sample$effective < LEAST_EFFECTIVE) {
    if (holding) {
      evidence <- gather(release, tables, estimand, NULL)
      return(list(evidence = evidence, drawn = draw_evidence(evidence, size)))
    }
    sample <- normal_draws(post, size)
    how <- "Laplace approximation"
    rough <- TRUE
  }
  parameters <- resampled(sample, size)
  member <- group_matrix(local, estimand)
  shares <- post$shares(parameters) %*% member
  totals <- post$totals(parameters)
  again <- matrix(stats::rgamma(length(shares), pmax(shares * totals / 2, 1e-9)), nrow(shares))
  again <- again / pmax(rowSums(again), TINY)
  evidence <- list(
    method = paste0("noise-aware posterior of ", length(local$tables), " noisy tables (", how, ")"),
    groups = estimand$groups, records = local$records, warnings = character(), raw = raw_shares(local, post, member),
    exact = FALSE, modelled = beyond_tables(local, estimand, member, shares), rough = rough,
    shaped = function(values) shaped(local, post, parameters, values)
  )
  list(evidence = evidence, drawn = list(counts = round(shares * totals), shares = shares, again = again))
}

group_matrix <- function(local, estimand) {
  cells <- local$merged$example[local$effects$possible]
  diag(estimand$groups)[estimand$labels[cells] + 1, , drop = FALSE]
}

# Values with the tails that the noise gives them: the first Cornish-Fisher term of its excess kurtosis.
shaped <- function(local, post, parameters, values) {
  centre <- colMeans(values)
  away <- sweep(values, 2, centre)
  spread <- sqrt(colMeans(away^2))
  slopes <- least_squares(sweep(parameters, 2, colMeans(parameters)), away)
  weights <- t(slopes) %*% post$response %*% local$reduced$weights
  excess <- as.numeric(weights^4 %*% (local$reduced$variances^2 * local$reduced$excess)) / spread^4
  excess[!is.finite(excess)] <- 0
  excess <- pmin(pmax(excess, 0), MOST_EXCESS)
  z <- sweep(away, 2, ifelse(spread > 0, spread, 1), `/`)
  z[, spread <= 0] <- 0
  moved <- z + sweep((z^3 - 3 * z) / 24, 2, excess, `*`)
  sweep(sweep(moved, 2, spread, `*`), 2, centre, `+`)
}

# Shares of the groups that agree exactly with the noisy tables; how noise and sampling move them.
raw_shares <- function(local, post, member) {
  reduced <- local$reduced
  columns <- local$effects$columns
  at_mode <- post$shares(matrix(post$mode, 1))[1, ]
  unknown <- is.null(local$records)
  total <- if (unknown) reduced$estimate[1] else local$records
  if (total <= 0 || !ncol(columns)) return(NULL)
  centred <- sweep(columns, 2, colMeans(columns))
  spread <- t(solve(crossprod(centred), t(centred)))
  own <- if (unknown) reduced$estimate[-1] else reduced$estimate
  change <- own / total - as.numeric(at_mode %*% columns)
  shares <- as.numeric((at_mode + as.numeric(spread %*% change)) %*% member)
  times <- ifelse(reduced$excess > 0, MOST_EXCESS / pmax(reduced$excess, 1e-9), 0)
  of_groups <- t(spread) %*% member
  deviations <- function(size) {
    noise <- noises(reduced$variances, times, size) %*% t(reduced$weights)
    if (unknown) noise <- noise[, -1, drop = FALSE] - outer(noise[, 1], own / total)
    people <- sampled(pmax(at_mode, 0), total, size) %*% columns
    (noise / total + people) %*% of_groups
  }
  list(shares = shares, deviations = deviations, people = total)
}

# Noises of given variances; `times` two-sided geometric ones in each, as a difference of gamma variates.
noises <- function(variances, times, size) {
  drawn <- matrix(stats::rnorm(size * length(variances)), size)
  for (column in which(times > 0)) {
    many <- times[column]
    drawn[, column] <- (stats::rgamma(size, many) - stats::rgamma(size, many)) / sqrt(2 * many)
  }
  sweep(drawn, 2, sqrt(variances), `*`)
}

# By how much one more person in each group changes each quantity: (groups, outputs).
influence_of <- function(estimand, shares) {
  step <- 1e-4
  eye <- diag(length(shares))
  row <- matrix(shares, length(shares), length(shares), byrow = TRUE)
  upper <- estimand$evaluate(row * (1 - step) + step * eye)
  lower <- estimand$evaluate(pmax(row * (1 + step) - step * eye, 0))
  (upper - lower) / (2 * step)
}

# For each output the part of its gradient that no measured table determines, between 0 and 1.
beyond_tables <- function(local, estimand, member, shares) {
  if (any(vapply(local$margins, function(margin) all(estimand$margin %in% margin), NA))) {
    return(rep(0, length(estimand$names)))
  }
  centre <- colMeans(shares)
  slopes <- member %*% influence_of(estimand, centre)
  weights <- as.numeric(member %*% centre)
  weights <- sqrt(weights / sum(weights))
  basis <- cbind(1, local$effects$columns) * weights
  targets <- slopes * weights
  targets <- targets - outer(weights, as.numeric(weights %*% targets))
  left <- targets - basis %*% least_squares(basis, targets)
  size <- colSums(targets^2)
  ifelse(size > 0, colSums(left^2) / size, 0)
}
