# Exact posteriors of a table: prior and likelihood are products over cells once the total is given.
#
# P(x) is proportional to prod f_j(x_j) h(sum x). Each factor is tilted so that the mean total is the total wanted; the
# law given the total does not change, and sums are then accurate. See docs/theory/exact-posterior.md of understudy.

NATS <- 55
SMALL <- 300000
GROWTH <- 1.08
FAR <- 60
WIDE <- 500
RESOLVED <- 1e-12
NEGLIGIBLE_LAW <- 1e-18
PATIENCE <- 4

# The law of one noise at a distance from 0, as a logarithm.
log_noise <- function(table, distance) {
  if (table$law == "geometric") {
    rate <- 1 / table$scale
    inside <- if (rate < log(2)) log(-expm1(-rate)) else log1p(-exp(-rate))
    return(inside - log1p(exp(-rate)) - distance * rate)
  }
  if (table$law == "discrete_gaussian") {
    return(-(distance / table$scale)^2 / 2 - log_normaliser(table$scale))
  }
  unsupported("the law '", table$law, "' is not known to the exact posterior.")
}

log_normaliser <- function(sigma) {
  k <- 1:7
  if (sigma < 1 / sqrt(2 * pi)) return(log1p(2 * sum(exp(-k^2 / (2 * sigma^2)))))
  0.5 * log(2 * pi) + log(sigma) + log1p(2 * sum(exp(-2 * (pi * sigma * k)^2)))
}

# The sum of `count` independent noises: log_pmf(error), and how far it reaches.
sum_of_noise <- function(table, count) {
  scale <- table$scale
  if (is.null(scale) || !table$law %in% c("geometric", "discrete_gaussian")) {
    unsupported("the law '", table$law, "' is not known to the exact posterior.")
  }
  single <- ceiling(FAR * scale) + 2
  if (count == 1) return(list(reach = single, log_pmf = function(error) log_noise(table, abs(error))))
  reach <- single + ceiling(20 * scale * sqrt(count))
  step <- max(1, floor(scale / WIDE))
  coarse <- table
  coarse$scale <- scale / step
  single <- ceiling(FAR * coarse$scale) + 2
  length <- stats::nextn(2 * (ceiling(reach / step) + single) + 1)
  half <- exp(log_noise(coarse, 0:single))
  law <- numeric(length)
  law[seq_along(half)] <- half
  law[length - seq_len(single) + 1] <- half[-1]
  sums <- Re(stats::fft(whole_power(stats::fft(law), count), inverse = TRUE))[seq_len(ceiling(reach / step) + 1)] / length
  resolved <- sums > RESOLVED * sums[1]
  last <- if (all(resolved)) length(sums) else which(!resolved)[1] - 1
  log <- if (last >= 2) log(sums[seq_len(last)]) else {
    near <- log_noise(coarse, 0:1)
    log(sums[1]) + c(0, near[2] - near[1] + log(count))
  }
  log <- log - log(step)
  top <- length(log) - 1
  list(reach = reach, log_pmf = function(error) {
    place <- abs(error) / step
    inside <- pmin(floor(place), top - 1)
    log[inside + 1] + (place - inside) * (log[inside + 2] - log[inside + 1])
  })
}

whole_power <- function(base, times) {
  result <- rep(1 + 0i, length(base))
  while (times > 0) {
    if (times %% 2 == 1) result <- result * base
    times <- times %/% 2
    if (times > 0) base <- base * base
  }
  result
}

log_rising <- function(a, n) lgamma(a + n) - lgamma(a)

# The table behind noisy counts of its cells.
noisy_posterior <- function(noisy, table, records, prior, cells, measured, total) {
  laws <- list()
  law_of <- function(count) {
    key <- as.character(count)
    if (is.null(laws[[key]])) laws[[key]] <<- sum_of_noise(table, count)
    laws[[key]]
  }
  widest <- max(vapply(unique(cells), function(count) law_of(count)$reach, 0))
  if (is.null(records)) {
    if (widest > 2e7) {
      unsupported("the noise (scale ", format(table$scale), ") is so wide that a number of people that is not public ",
                  "cannot be told from it.")
    }
    extra <- if (is.null(total)) 0 else max(0, total$values)
    top <- max(noisy, extra, 0) + widest + 50
  } else {
    top <- records
  }
  if (is.null(records) && !all(measured)) refuse("without a known total every cell needs a noisy count.")
  key <- paste(format(noisy, digits = 17), cells, measured)
  classes <- match(key, unique(key))
  example <- match(seq_len(max(classes)), classes)
  factor <- function(class, x) {
    cell <- example[class]
    value <- log_rising(prior, x) - lgamma(x + 1)
    if (!measured[cell]) return(value)
    value + law_of(cells[cell])$log_pmf(noisy[cell] - x)
  }
  guesses <- pmin(pmax(noisy[example], 0), top)
  columns <- find_columns(factor, guesses, top, tabulate(classes), records)
  whole <- prior * length(noisy)
  if (!is.null(records)) {
    constant <- lgamma(records + 1) - log_rising(whole, records)
    return(latent_table(columns, classes, total = records, constant = constant, prior = rep(prior, length(noisy))))
  }
  total_log <- function(totals) {
    value <- lgamma(totals + 1) - log_rising(whole, totals)
    if (!is.null(total)) value <- value + log_noise(total, abs(total$values - totals))
    value
  }
  latent_table(columns, classes, total_log = total_log, constant = 0, prior = rep(prior, length(noisy)))
}

# The table behind Dirichlet draws of it; `released` and `alpha` have one row for each copy.
draws_posterior <- function(released, records, alpha, prior) {
  copies <- nrow(released)
  key <- apply(rbind(released, alpha), 2, function(column) paste(format(column, digits = 17), collapse = " "))
  classes <- match(key, unique(key))
  example <- match(seq_len(max(classes)), classes)
  factor <- function(class, x) {
    cell <- example[class]
    value <- log_rising(prior, x) - lgamma(x + 1)
    for (copy in seq_len(copies)) value <- value + log_rising(alpha[copy, cell] + x, released[copy, cell])
    value
  }
  rows <- rowSums(released)
  share <- released / pmax(rows, 1) * (rowSums(alpha) + records) - alpha
  guesses <- pmin(pmax(colMeans(share)[example], 0), records)
  columns <- find_columns(factor, guesses, records, tabulate(classes), records)
  constant <- lgamma(records + 1) - log_rising(prior * ncol(released), records)
  constant <- constant + sum(lgamma(rows + 1) - log_rising(rowSums(alpha) + records, rows)) - sum(lgamma(released + 1))
  latent_table(columns, classes, total = records, constant = constant, prior = rep(prior, ncol(released)))
}

# Where the factor of each class has its mass: whole numbers far from there are never evaluated.
find_columns <- function(factor, guesses, top, times, total) {
  count <- length(guesses)
  if (count * (top + 1) <= SMALL) {
    return(lapply(seq_len(count), function(class) list(start = 0, log = factor(class, 0:top))))
  }
  steps <- 0
  while (steps[length(steps)] <= top) {
    last <- steps[length(steps)]
    steps <- c(steps, max(last + 1, round(last * GROWTH)))
  }
  offsets <- c(-rev(steps), steps[-1])
  grids <- lapply(guesses, function(guess) {
    near <- pmin(pmax(round(guess), 0), top) + offsets
    sort(pmin(pmax(c(near, 0, 1, 2, 3, top), 0), top))
  })
  logs <- lapply(seq_len(count), function(class) factor(class, grids[[class]]))
  tilt <- 0
  if (!is.null(total)) {
    points <- lapply(seq_len(count), function(class) {
      gaps <- diff(grids[[class]])
      list(x = grids[[class]], log = logs[[class]] + log(c(0, gaps / 2) + c(gaps / 2, 0)))
    })
    tilt <- newton_tilt(points, times, total)
  }
  lapply(seq_len(count), function(class) {
    grid <- grids[[class]]
    value <- logs[[class]] + tilt * grid
    seen <- which(value > max(value) - NATS)
    x <- grid[max(seen[1] - 1, 1)]:grid[min(seen[length(seen)] + 1, length(grid))]
    list(start = x[1], log = factor(class, x))
  })
}

# The tilt at which the mean total is the total wanted: a safeguarded Newton search on a monotone function.
newton_tilt <- function(points, times, total) {
  low <- -800
  high <- 800
  tilt <- 0
  for (round in seq_len(200)) {
    moments <- vapply(points, function(one) {
      value <- one$log + tilt * one$x
      weight <- exp(value - max(value))
      mass <- sum(weight)
      mean <- sum(weight * one$x) / mass
      c(mean, max(sum(weight * one$x^2) / mass - mean^2, 0))
    }, c(0, 0))
    error <- sum(times * moments[1, ]) - total
    spread <- sum(times * moments[2, ])
    if (error > 0) high <- tilt else low <- tilt
    if (abs(error) <= 1e-3 * max(sqrt(spread), 1e-6) || high - low < 1e-12) break
    step <- if (spread > 0) tilt - error / spread else NaN
    if (is.nan(step) || step <= low || step >= high || abs(step - tilt) > 5) {
      step <- tilt - 5 * sign(error)
      if (step <= low || step >= high) step <- (low + high) / 2
    }
    tilt <- step
  }
  tilt
}

latent_table <- function(columns, classes, total = NULL, total_log = NULL, constant, prior) {
  times <- tabulate(classes, length(columns))
  points <- lapply(columns, function(one) list(x = one$start + seq_along(one$log) - 1, log = one$log))
  lowest <- sum(times * vapply(columns, function(one) one$start, 0))
  highest <- lowest + sum(times * vapply(columns, function(one) length(one$log) - 1, 0))
  if (!is.null(total) && (total < lowest || total > highest)) {
    refuse("no table with a total of ", total, " can have led to this release.")
  }
  tilt <- if (is.null(total)) 0 else newton_tilt(points, times, total)
  laws <- lapply(points, function(one) {
    log <- one$log + tilt * one$x
    top <- max(log)
    seen <- which(log > top - NATS)
    kept <- seen[1]:seen[length(seen)]
    weights <- exp(pmax(log[kept] - top, -2 * NATS))
    law <- weights / sum(weights)
    x <- one$x[kept]
    mean <- sum(law * x)
    list(start = x[1], law = law, log_scale = top + log(sum(weights)), mean = mean, variance = sum(law * (x - mean)^2))
  })
  spans <- vapply(laws, function(one) length(one$law) - 1, 0)
  variance <- sum(times * vapply(laws, function(one) one$variance, 0))
  width <- stats::nextn(min(sum(spans * times) + 1, ceiling(30 * sqrt(variance) + 2 * max(spans) + 16)))
  if (4 * width * length(columns) > 4e9) {
    unsupported(length(classes), " cells with ", length(columns), " different columns are too many for exact draws; ",
                "merge cells first (a question about few groups needs few).")
  }
  found <- list(laws = laws, classes = classes, times = times, total = total, total_log = total_log, width = width,
                offset = sum(times * vapply(laws, function(one) one$start, 0)), prior = prior)
  scale <- sum(times * vapply(laws, function(one) one$log_scale, 0)) - (if (is.null(total)) 0 else tilt * total)
  if (is.null(total)) {
    found$tree <- sum_tree(found)
    log <- log(found$tree$law) + total_log(found$tree$start + seq_along(found$tree$law) - 1)
    found$log_evidence <- constant + scale + max(log) + log(sum(exp(log - max(log))))
  } else {
    spectrum <- Reduce(`*`, lapply(seq_along(laws), function(class) {
      whole_power(spectrum_of(found, class), times[class])
    }))
    law <- Re(stats::fft(spectrum, inverse = TRUE)) / width
    at <- law[(total - found$offset) %% width + 1]
    if (at <= 0) refuse("no table with a total of ", total, " can have led to this release.")
    found$log_evidence <- constant + scale + log(at)
  }
  found
}

spectrum_of <- function(latent, class) {
  law <- latent$laws[[class]]$law
  folded <- numeric(latent$width)
  if (length(law) > latent$width) {
    place <- (seq_along(law) - 1) %% latent$width + 1
    sums <- rowsum(law, place)
    folded[as.numeric(rownames(sums))] <- sums
  } else {
    folded[seq_along(law)] <- law
  }
  stats::fft(folded)
}

# The whole numbers a cell can be and their posterior probabilities, for a known total.
cell_law <- function(latent, cell) {
  class <- latent$classes[cell]
  left <- latent$times
  left[class] <- left[class] - 1
  spectrum <- Reduce(`*`, lapply(seq_along(latent$laws), function(one) whole_power(spectrum_of(latent, one), left[one])))
  rest <- Re(stats::fft(spectrum, inverse = TRUE)) / latent$width
  law <- latent$laws[[class]]
  places <- (latent$total - (seq_along(law$law) - 1) - latent$offset) %% latent$width
  weights <- law$law * pmax(rest[places + 1], 0)
  list(x = law$start + seq_along(law$law) - 1, law = weights / sum(weights))
}

# A binary tree of sums of independent whole numbers, and joint draws of the numbers given their sum. Nodes that are sums
# of the same classes are made once.
sum_tree <- function(latent) {
  order <- order(latent$classes)
  made <- new.env()
  node <- function(start, law, id, left = NULL, right = NULL, cells = 1) {
    x <- seq_along(law) - 1
    cumulative <- cumsum(law)
    mean <- sum(law * x) / cumulative[length(law)]
    list(start = start, law = law, id = id, left = left, right = right, cells = cells, cumulative = cumulative,
         mode = max(law), spread = sum(law * (x - mean)^2))
  }
  leaves <- lapply(seq_along(latent$laws), function(class) {
    node(latent$laws[[class]]$start, latent$laws[[class]]$law, as.character(class))
  })
  level <- leaves[latent$classes[order]]
  while (length(level) > 1) {
    paired <- list()
    for (place in seq(1, length(level) - 1, by = 2)) {
      left <- level[[place]]
      right <- level[[place + 1]]
      id <- paste0("(", left$id, ",", right$id, ")")
      if (is.null(made[[id]])) {
        law <- convolved(left$law, right$law)
        kept <- which(law > NEGLIGIBLE_LAW * max(law))
        law <- law[kept[1]:kept[length(kept)]]
        start <- left$start + right$start + kept[1] - 1
        made[[id]] <- node(start, law, id, left, right, left$cells + right$cells)
      }
      paired <- c(paired, list(made[[id]]))
    }
    if (length(level) %% 2) paired <- c(paired, level[length(level)])
    level <- paired
  }
  root <- level[[1]]
  root$order <- order
  root
}

# Directly, without any cancellation, while that takes no time.
convolved <- function(first, second) {
  if (length(first) > length(second)) return(convolved(second, first))
  size <- length(first) + length(second) - 1
  if (as.numeric(length(first)) * length(second) <= 4e6) {
    sums <- numeric(size)
    for (place in seq_along(first)) {
      at <- place:(place + length(second) - 1)
      sums[at] <- sums[at] + first[place] * second
    }
    return(sums)
  }
  length <- stats::nextn(size)
  pad <- function(law) stats::fft(c(law, numeric(length - length(law))))
  pmax(Re(stats::fft(pad(first) * pad(second), inverse = TRUE))[seq_len(size)] / length, 0)
}

# Independent tables from the posterior, one per row.
draw_tables <- function(latent, size) {
  tree <- if (is.null(latent$tree)) sum_tree(latent) else latent$tree
  if (!is.null(latent$total)) {
    totals <- rep(latent$total, size)
  } else {
    log <- log(tree$law) + latent$total_log(tree$start + seq_along(tree$law) - 1)
    cumulative <- cumsum(exp(log - max(log)))
    at <- findInterval(stats::runif(size) * cumulative[length(cumulative)], cumulative)
    totals <- tree$start + pmin(at, length(tree$law) - 1)
  }
  result <- matrix(0, size, length(latent$classes))
  place <- 0
  walk <- function(node, sums) {
    if (is.null(node$left)) {
      place <<- place + 1
      result[, tree$order[place]] <<- sums
      return(invisible())
    }
    narrow <- if (node$left$spread <= node$right$spread) node$left else node$right
    wide <- if (node$left$spread <= node$right$spread) node$right else node$left
    drawn <- split_sums(sums, narrow, wide)
    left <- if (node$left$spread <= node$right$spread) drawn else sums - drawn
    walk(node$left, left)
    walk(node$right, sums - left)
  }
  walk(tree, totals)
  result
}

# The part of each sum that belongs to the narrow node: by rejection, and what remains from the law itself.
split_sums <- function(sums, narrow, wide) {
  result <- numeric(length(sums))
  waiting <- seq_along(sums)
  size <- length(narrow$law)
  for (round in seq_len(PATIENCE)) {
    height <- stats::runif(length(waiting)) * narrow$cumulative[size]
    part <- pmin(findInterval(height, narrow$cumulative), size - 1) + narrow$start
    rest <- sums[waiting] - part - wide$start
    inside <- rest >= 0 & rest < length(wide$law)
    chance <- ifelse(inside, wide$law[ifelse(inside, rest, 0) + 1], 0)
    accepted <- stats::runif(length(waiting)) * wide$mode < chance
    result[waiting[accepted]] <- part[accepted]
    waiting <- waiting[!accepted]
    if (!length(waiting)) return(result)
  }
  parts <- seq_len(size) - 1
  for (sum in unique(sums[waiting])) {
    mine <- waiting[sums[waiting] == sum]
    rest <- sum - parts - narrow$start - wide$start
    inside <- rest >= 0 & rest < length(wide$law)
    cumulative <- cumsum(ifelse(inside, narrow$law * wide$law[ifelse(inside, rest, 0) + 1], 0))
    at <- findInterval(stats::runif(length(mine)) * cumulative[size], cumulative)
    result[mine] <- narrow$start + pmin(at, size - 1)
  }
  result
}

draw_shares <- function(latent, counts) {
  gammas <- matrix(stats::rgamma(length(counts), counts + rep(latent$prior, each = nrow(counts))), nrow(counts))
  gammas / pmax(rowSums(gammas), TINY)
}
