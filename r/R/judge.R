# From posterior draws and the noisy values alone to one interval for each quantity, and the label that it earns.
#
# Every step can only lower a label and widen an interval, as in Python (docs/theory/noise-aware.md of understudy).

LABELS <- c("valid", "range", "selection not modelled", "model-based", "not determined")
CURVED <- 0.2
CURVED_FAR <- 0.6
USUAL <- 0.6827
SHIFTED <- 0.25
NARROWED <- 0.85
BIN_SHARE <- 0.1
SIMULATED <- 200
LEAST_WIDTH <- 0.5
MOST_ROOM <- 1
USUAL_HALF <- 1.96
NOTICED <- 1.005
MOST_SHARES <- 400
POINTS <- 201
MOST_SIMULATED <- 3e7
BY_PRIOR <- paste("the noisy values alone do not determine this: it is far from linear over the range of noise and",
                  "sampling, so the answer depends on its prior")
TOO_THIN <- "the interval is far narrower than one from the records themselves, which no noisy table can justify"
LITTLE_SAID <- "the noise of this release leaves little to say here; the answer is close to its prior"

column_quantiles <- function(values, at, type = 7) {
  matrix(apply(values, 2, stats::quantile, probs = at, type = type, names = FALSE), length(at))
}
column_median <- function(values) apply(values, 2, stats::median)

clip <- function(values, bounds) pmin(pmax(values, bounds[1]), bounds[2])

begin_judging <- function(estimand, values, level, warnings) {
  ends <- column_quantiles(values, c((1 - level) / 2, (1 + level) / 2), type = 6)
  nothing <- rep(FALSE, ncol(values))
  list(
    names = estimand$names, centre = colMeans(values), low = ends[1, ], high = ends[2, ],
    spread = apply(values, 2, stats::sd), labels = rep("valid", ncol(values)), alone = nothing, by_prior = nothing,
    earned = nothing, warnings = warnings
  )
}

worst_label <- function(labels, label) LABELS[pmax(match(labels, LABELS), match(label, LABELS))]

lower_labels <- function(judged, which, label, why) {
  if (!any(which)) return(judged)
  judged$labels[which] <- worst_label(judged$labels[which], label)
  chosen <- judged$names[which]
  named <- if (all(which)) "" else {
    more <- if (length(chosen) > 4) paste(" and", length(chosen) - 4, "more") else ""
    paste0(paste(utils::head(chosen, 4), collapse = ", "), more, ": ")
  }
  judged$warnings <- c(judged$warnings, paste0(named, why))
  judged
}

# The estimate of a quantity without any prior, from pairs of opposite deviations; NULL where it cannot be computed.
unshrunk <- function(raw, quantity, level) {
  pairs <- min(PAIRS, MOST_SIMULATED %/% (2 * max(1, length(raw$shares))))
  if (pairs < PAIRS %/% 3) return(NULL)
  away <- raw$deviations(pairs)
  row <- matrix(raw$shares, pairs, length(raw$shares), byrow = TRUE)
  values <- quantity(rbind(raw$shares, row + away, row - away))
  middle <- values[1, ]
  above <- values[1 + seq_len(pairs), , drop = FALSE]
  below <- values[1 + pairs + seq_len(pairs), , drop = FALSE]
  first <- abs(above - below) / 2
  second <- sweep((above + below) / 2, 2, middle)
  usable <- is.finite(middle) & colSums(!is.finite(first)) == 0 & colSums(!is.finite(second)) == 0
  first[, !usable] <- 1
  second[, !usable] <- 0
  near <- column_median(abs(second)) / pmax(column_median(first), TINY)
  far <- column_quantiles(abs(second), 0.95)[1, ] / pmax(column_quantiles(first, 0.95)[1, ], TINY)
  determined <- usable & near <= CURVED & far <= CURVED_FAR
  list(
    value = middle - ifelse(determined, column_median(second), 0), half = column_quantiles(first, level, type = 6)[1, ],
    one_sided = column_quantiles(first, max(2 * level - 1, 0), type = 6)[1, ],
    spread = column_quantiles(first, USUAL)[1, ], determined = determined
  )
}

# The posterior's interval, or that of the noisy values alone where the prior has moved the posterior's.
settle <- function(found, raw, quantity, bounds, level, inside = 1) {
  alone <- if (is.null(raw)) NULL else unshrunk(raw, quantity, level)
  if (is.null(alone)) {
    found$by_prior <- rep(TRUE, length(found$centre))
    return(found)
  }
  possible <- clip(alone$value, bounds)
  shift <- abs(found$centre - alone$value)
  same <- shift <= SHIFTED * alone$spread & found$spread >= NARROWED * alone$spread
  down <- up <- alone$half
  if (identical(bounds, c(0, 1))) {
    people <- max(raw$people * inside, 1)
    down <- reach_of(1 - possible, alone$half, alone$spread, people, level)
    up <- reach_of(possible, alone$half, alone$spread, people, level)
    down <- near_bound(possible, down, alone$half, alone$one_sided)
    up <- near_bound(1 - possible, up, alone$half, alone$one_sided)
  }
  low <- clip(possible - down, bounds)
  high <- clip(possible + up, bounds)
  # The spread of a skew posterior is that of its far tail: its interval can be short all the same.
  same <- same & found$high - found$low >= NARROWED * (high - low)
  used <- alone$determined & !(same %in% TRUE)
  found$centre <- ifelse(used, possible, found$centre)
  found$low <- ifelse(used, low, found$low)
  found$high <- ifelse(used, high, found$high)
  found$spread <- ifelse(used, alone$spread, found$spread)
  found$by_prior <- !alone$determined
  found$alone <- used
  found
}

# How far an interval of a share near 0 reaches down, if all of its error probability is at that end.
near_bound <- function(share, down, half, one_sided) {
  nearest <- pmax(share - down, pmin(share - one_sided, half))
  ifelse(share < 0.5 & half < 0.5, share - nearest, down)
}

reach_of <- function(share, half, spread, people, level) {
  up <- half
  for (round in 1:12) {
    end <- pmax(share, pmin(share + up, 0.5))
    more <- pmax(end * (1 - end) - share * (1 - share), 0) / people
    up <- half * sqrt(1 + more / pmax(spread^2, TINY))
  }
  # Never below Wilson's interval for a sample without noise.
  z <- stats::qnorm((1 + level) / 2)
  root <- sqrt(pmax(share * (1 - share) / people, 0) + (z / (2 * people))^2)
  pmax(up, (share + z^2 / (2 * people) + z * root) / (1 + z^2 / people) - share)
}

hold_against_noisy_values <- function(judged, estimand, evidence, level) {
  if (evidence$exact && estimand$groups <= FEW_GROUPS) return(reach_past_bounds(judged, estimand, evidence$raw, level))
  raw <- evidence$raw
  inside <- if (is.null(raw)) 1 else inside_of(estimand, matrix(raw$shares, 1))[[1]]
  judged <- settle(judged, raw, estimand$evaluate, estimand$bounds, level, inside)
  kinds <- vapply(estimand$parts, function(part) part$kind, "")
  shares <- !is.null(raw) && all(kinds %in% c("proportion", "crosstab"))
  if (shares || (!is.null(raw) && all(kinds == "mean"))) {
    judged$by_prior <- judged$by_prior | hidden_groups(estimand, raw, level)
  }
  if (shares && any(judged$by_prior) && sum(judged$by_prior) <= MOST_SHARES) {
    which <- judged$by_prior
    ends <- not_rejected(estimand, raw, level, which)
    judged$low <- ifelse(which, ends[, 1], judged$low)
    judged$high <- ifelse(which, ends[, 2], judged$high)
    judged$centre <- ifelse(which, pmin(pmax(judged$centre, judged$low), judged$high), judged$centre)
    z <- stats::qnorm((1 + level) / 2)
    judged$spread <- ifelse(which, pmax(judged$spread, (ends[, 2] - ends[, 1]) / (2 * z)), judged$spread)
    judged$alone <- judged$alone | which
    judged$by_prior <- rep(FALSE, length(which))
    judged <- lower_labels(judged, which & ends[, 1] <= 0 & ends[, 2] >= 1, "range",
                           "noise hides how many people this is about")
  }
  if (!is.null(raw) && any(judged$by_prior) && all(kinds == "mean")) {
    unsupported("noise hides how many people this mean is about. Python's infer has the range that is left of it.")
  }
  judged$earned <- !judged$by_prior
  lower_labels(judged, judged$by_prior, "model-based", BY_PRIOR)
}

# An interval of every value there can be holds the truth, whatever was chosen or assumed, and says nothing.
whole_range <- function(judged, bounds) {
  if (!all(is.finite(bounds))) return(judged)
  every <- judged$low <= bounds[1] & judged$high >= bounds[2] & judged$labels != "not determined"
  every <- every %in% TRUE
  judged$labels[every] <- "range"
  lower_labels(judged, every, "range", "noise leaves every value there can be open")
}

# Where noise makes a share smaller than 0 or larger than 1, its interval reaches as far as from 0 or 1.
reach_past_bounds <- function(judged, estimand, raw, level) {
  if (is.null(raw) || !identical(as.numeric(estimand$bounds), c(0, 1))) return(judged)
  alone <- unshrunk(raw, estimand$evaluate, level)
  if (is.null(alone)) return(judged)
  below <- alone$determined & alone$value < 0
  above <- alone$determined & alone$value > 1
  judged$high <- ifelse(below, pmin(pmax(judged$high, alone$half), 1), judged$high)
  judged$low <- ifelse(above, pmax(pmin(judged$low, 1 - alone$half), 0), judged$low)
  judged
}

# All values of shares of subgroups that the noisy values do not reject, where noise hides the size of the subgroup.
not_rejected <- function(estimand, raw, level, which) {
  away <- raw$deviations(2 * PAIRS)
  parts <- length(estimand$parts)
  each <- 1 - (1 - level) / parts
  found <- lapply(seq_len(parts), function(place) {
    member <- own_of(estimand$members[[place]])
    shares <- as.numeric(raw$shares %*% member)
    deviations <- away %*% member
    pairs <- numerators(estimand$parts[[place]])
    t(vapply(seq_along(pairs), function(one) {
      if (!which[one]) return(c(0, 1))
      share_interval(shares, deviations, pairs[[one]]$inside, pairs[[one]]$having, raw$people, each)
    }, c(0, 1)))
  })
  if (parts == 1) return(found[[1]])
  cbind(found[[1]][, 1] - found[[2]][, 2], found[[1]][, 2] - found[[2]][, 1])
}

# For each share of a part: who is in its subgroup, and who has its value. Of a mean, who is in its subgroup.
numerators <- function(part) {
  count <- part$count - FIRST
  if (part$kind == "mean") {
    group <- rep(seq_len(max(part$cells, 1)), each = count / max(part$cells, 1))
    return(lapply(unique(group), function(one) list(inside = as.numeric(group == one))))
  }
  eye <- diag(count)
  if (part$kind == "proportion") {
    return(lapply(seq(1, count, by = 2), function(place) {
      list(inside = eye[, place] + eye[, place + 1], having = eye[, place + 1])
    }))
  }
  among <- if (is.null(part$base)) rep(0, count) else part$base
  lapply(seq_len(count), function(place) list(inside = as.numeric(among == among[place]), having = eye[, place]))
}

# The shares and means whose subgroup does not stand out from its noise, so that they are no smooth function of anything.
hidden_groups <- function(estimand, raw, level) {
  away <- raw$deviations(2 * PAIRS)
  found <- rep(FALSE, length(estimand$names))
  for (place in seq_along(estimand$parts)) {
    member <- own_of(estimand$members[[place]])
    inside <- vapply(numerators(estimand$parts[[place]]), function(pair) pair$inside, numeric(ncol(member)))
    size <- as.numeric(raw$shares %*% member %*% inside)
    moved <- abs(away %*% member %*% inside)
    found <- found | size <= column_quantiles(moved, level, type = 6)[1, ]
  }
  found
}

share_interval <- function(shares, deviations, inside, having, people, level) {
  points <- seq(0, 1, length.out = POINTS)
  b <- sum(shares * inside)
  # Noise can make fewer than 0 or more than all people have the value. It is moved there: no share is lost by that.
  a <- min(max(sum(shares * having), 0), max(b, 0))
  of_b <- as.numeric(deviations %*% inside)
  # Where the subgroup does not stand out from its noise, what is not rejected is no interval around an estimate.
  if (b <= stats::quantile(abs(of_b), level, type = 6, names = FALSE)) return(c(0, 1))
  moved <- abs(as.numeric(deviations %*% having) - outer(of_b, points))
  spread <- sqrt(colMeans(moved^2))
  # Sampling as it would be at each point. What was simulated is that at the estimate, which may be less, or none.
  at_point <- max(b, UNSEEN / people) * points * (1 - points)
  at_estimate <- a * (1 - points)^2 + (b - a) * points^2 - (a - points * b)^2
  more <- pmax(at_point - pmax(at_estimate, 0), 0) / people
  wider <- ifelse(spread > 0, sqrt(1 + more / pmax(spread, 1e-300)^2), 0)
  reached <- function(at) {
    sampling <- stats::qnorm((1 + at) / 2) * sqrt(at_point / people)
    pmax(wider * column_quantiles(moved, at, type = 6)[1, ], sampling) # never less than sampling alone
  }
  reach <- reached(level)
  nearer <- reached(max(2 * level - 1, 0))
  # A share so small that no number of people is too few for it is rejected on one side only; likewise a large one.
  few <- points * b <= reach
  many <- (1 - points) * b <= reach
  above <- ifelse(few & !many, nearer, reach)
  below <- ifelse(many & !few, nearer, reach)
  left <- pmin(above - (a - points * b), below - (points * b - a))
  kept <- which(left >= 0)
  if (!length(kept)) return(c(0, 1))
  c(crossing(points, left, kept[1], -1), crossing(points, left, kept[length(kept)], 1))
}

# Where what is left falls to 0 beyond a point that is kept, on the straight line to the next point.
crossing <- function(points, left, kept, step) {
  after <- kept + step
  if (after < 1 || after > length(points)) return(points[kept])
  points[kept] + left[kept] / (left[kept] - left[after]) * (points[after] - points[kept])
}

# Let the interval, or otherwise the label, account for the unknown position of a number inside its bin.
open_bins <- function(judged, estimand, raw, drawn, level) {
  if (!estimand$binned) return(judged)
  ends_of <- function(quantity) {
    found <- begin_judging(estimand, quantity(drawn$shares), level, character())
    if (!is.null(raw)) found <- settle(found, raw, quantity, c(-Inf, Inf), level)
    found
  }
  low <- ends_of(estimand$lowest)$low
  high <- ends_of(estimand$highest)$high
  before <- judged$high - judged$low
  judged$low <- pmin(low, judged$low)
  judged$high <- pmax(high, judged$high)
  wide <- judged$high - judged$low > (1 + BIN_SHARE) * before
  judged$labels[wide] <- worst_label(judged$labels[wide], "range")
  judged
}

# The interval of a share reaches down to 0 if nobody may have the value, and up to 1 if everybody may.
nobody_and_everybody <- function(judged, estimand, drawn, level) {
  if (!identical(estimand$bounds, c(0, 1))) return(judged)
  seen <- estimand$evaluate(drawn$counts)
  often <- (1 - level) / 2
  judged$low <- ifelse(colMeans(seen <= 0) > often, 0, judged$low)
  judged$high <- ifelse(colMeans(seen >= 1) > often, 1, judged$high)
  judged
}

empty_groups <- function(judged, estimand, drawn, often) {
  inside <- inside_groups(estimand, drawn$counts)
  if (is.null(inside)) return(judged)
  empty <- colMeans(inside < 1) > often
  if (all(empty)) unsupported("in every group of this table there may be nobody. Ask about larger groups.")
  judged <- lower_labels(judged, empty, "not determined", "there may be nobody in it, given this release")
  judged$low[empty] <- -Inf
  judged$high[empty] <- Inf
  judged
}

# The standard error of the records themselves, around the mean of the posterior.
spread_of_records <- function(estimand, drawn, records) {
  centre <- colMeans(drawn$shares)
  possible <- centre > 0
  moved <- matrix(0, SIMULATED, length(centre))
  away <- sampled(centre[possible], max(records, 1), SIMULATED)
  moved[, possible] <- sweep(away, 2, centre[possible], `+`)
  ends <- apply(estimand$evaluate(pmax(moved, 0)), 2, stats::quantile, c(0.25, 0.75), names = FALSE, na.rm = TRUE)
  (ends[2, ] - ends[1, ]) / 1.349
}

# Do not let an interval be far narrower than one from the records themselves.
keep_width <- function(judged, sampling, level, bounds) {
  least <- LEAST_WIDTH * stats::qnorm((1 + level) / 2) * ifelse(is.finite(sampling), sampling, 0)
  half <- (judged$high - judged$low) / 2
  thin <- (half < least | (half <= 0 & !(sampling <= 0))) %in% TRUE
  if (identical(bounds, c(0, 1))) {
    judged$low <- ifelse(thin, clip(judged$centre - least, bounds), judged$low)
    judged$high <- ifelse(thin, clip(judged$centre + least, bounds), judged$high)
    thin <- thin & judged$high <= judged$low
  }
  lower_labels(judged, thin, "model-based", TOO_THIN)
}

# Units of several rows, which may all be alike: the sampling variance is at most `rows` times that of independent rows.
several_rows <- function(judged, sampling, rows, bounds) {
  part <- ifelse(sampling == 0, 0, sampling / judged$spread) # what is the same for everybody has neither
  times <- sqrt(pmax(1 + (rows - 1) * part^2, 0))
  unknown <- !is.finite(times)
  judged <- lower_labels(judged, unknown & is.finite(judged$spread), "model-based",
                         "a unit may have several rows; they are treated as independent, so intervals may be too short")
  times[unknown] <- 1
  judged$low <- ifelse(unknown, judged$low, pmax(judged$centre - times * (judged$centre - judged$low), bounds[1]))
  judged$high <- ifelse(unknown, judged$high, pmin(judged$centre + times * (judged$high - judged$centre), bounds[2]))
  judged$spread <- times * judged$spread
  judged$warnings <- c(judged$warnings, sprintf(paste(
    "a unit may have up to %d rows, which may all be alike: intervals are up to %.2f times as long as for independent",
    "rows"
  ), as.integer(rows), max(times)))
  judged
}

# Lengthen each interval by the largest bias that the choice of tables can cause, unless that is too much.
make_room <- function(judged, moved, bounds) {
  half <- pmax((judged$high - judged$low) / 2, USUAL_HALF * judged$spread, na.rm = TRUE)
  times <- ifelse(half > 0, 1 + moved / half, 1)
  much <- !((times <= 1 + MOST_ROOM) %in% TRUE)
  judged <- lower_labels(judged, much, "selection not modelled",
                         "the choice of tables may bias this by more than 1 half-widths")
  kept <- !much & moved > 0
  if (!any(kept)) return(judged)
  judged$low <- ifelse(kept, pmax(judged$low - moved, bounds[1]), judged$low)
  judged$high <- ifelse(kept, pmin(judged$high + moved, bounds[2]), judged$high)
  judged$spread <- ifelse(kept, judged$spread * times, judged$spread)
  if (max(times[kept]) < NOTICED) return(judged)
  judged$warnings <- c(judged$warnings, sprintf(paste(
    "tables were chosen by noisy looks at the data: intervals are up to %.2f times as long, to allow for the bias that",
    "such a choice can cause"
  ), max(times[kept])))
  judged
}
