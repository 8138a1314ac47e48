# infer(): from a release and a question to an answer that says how it was found, or a refusal that says why.

DRAWS <- 4000
LITTLE <- 0.01
EMPTY <- 0.025

infer <- function(release, question, where = NULL, by = NULL, level = 0.95, draws = NULL, prior = NULL,
                  synthesis = NULL, records = NULL, weighted = NULL) {
  check_release(release)
  if (!is.numeric(level) || length(level) != 1 || is.na(level) || level <= 0 || level >= 1) {
    refuse("level must be one number between 0 and 1.")
  }
  if (!is.null(draws) && (!is.numeric(draws) || length(draws) != 1 || is.na(draws) || draws < 100 || draws > 1e6)) {
    refuse("draws must be a whole number between 100 and 1,000,000.")
  }
  if (!is.null(prior) && (!is.numeric(prior) || length(prior) != 1 || is.na(prior) || prior <= 0 || prior >= 1e6)) {
    refuse("prior must be a positive number: the prior count of each group.")
  }
  asked <- list(question = question, where = where, by = by, level = level, prior = prior, weighted = weighted)
  parsed <- read_question(release, asked)
  if (length(release$about$weights) && !identical(weighted, FALSE)) {
    not_in_r(release, asked, paste("This release has survey weights, and weighted answers are not computed in R; with",
                                   "weighted = FALSE the answer is about the sample."))
  }
  how <- list(asked = asked, level = level, draws = draws, prior = prior, synthesis = synthesis, records = records)
  cuts <- do.call(c, lapply(parsed$atoms, function(atom) cuts_of(atom$condition)))
  answer <- if (length(cuts)) {
    most <- answered(release, settled_question(parsed, TRUE), how)
    least <- tryCatch(answered(release, settled_question(parsed, FALSE), how), understudy_input = function(e) NULL)
    between_edges(parsed, cuts, least, most)
  } else {
    answered(release, parsed, how)
  }
  if (!isTRUE(release$about$verified)) {
    answer$estimates$label <- worst_label(answer$estimates$label, "model-based")
    answer$warnings <- c("this release did not pass 'understudy verify'", answer$warnings)
  }
  answer
}

settled_question <- function(question, most) {
  question$atoms <- lapply(question$atoms, function(atom) {
    atom$condition <- settled_condition(atom$condition, most)
    atom
  })
  question
}

answered <- function(release, parsed, how) {
  estimand <- make_estimand(release, parsed)
  facts <- release$about$inference
  if (isTRUE(facts$grown)) {
    not_in_r(release, how$asked, paste("Tables joined this release after it was made, and answers from such a release",
                                       "are not computed in R."))
  }
  if (facts$kind %in% c("unknown", "plain", "partial")) {
    if (!is.null(how$prior) || !is.null(how$draws)) refuse("a combining rule has no prior and draws nothing.")
    if (facts$kind == "unknown") {
      return(by_rule(release, estimand, how$asked, how$level, how$synthesis, how$records, outside = TRUE))
    }
  }
  if (!is.null(how$synthesis) || !is.null(how$records)) {
    refuse("this release states how it was made; leave out synthesis and records.")
  }
  if (facts$kind %in% c("plain", "partial")) {
    made <- if (facts$kind == "plain") "simple" else "partial"
    if (made == "partial" && !identical(as.numeric(unique(release$rows)), as.numeric(release$records))) {
      unsupported("rule T_p is for partially synthetic tables with one row for each record; this release is a sample of ",
                  "such tables, or its number of records is not public.")
    }
    return(by_rule(release, estimand, how$asked, how$level, made, release$records, outside = FALSE))
  }
  if (any(vapply(unlist(facts$draws, FALSE), function(law) !is.null(law$weights), NA))) {
    not_in_r(release, how$asked, "The cells of this release have priors of different weight, which R does not know.")
  }
  if (facts$best_label == "refused") {
    unsupported("this question is refused for method '", release$about$method, "': ", facts$note, ".")
  }
  for (table in release$tables) {
    if (!table$cells %in% c("all", "first") || is.null(table$scale) ||
        !table$law %in% c("geometric", "discrete_gaussian")) {
      not_in_r(release, how$asked, paste0("The noise of a table of this release ('", table$law,
                                          "') is not known to this package."))
    }
  }
  size <- if (!is.null(how$draws)) how$draws else min(DRAWS, max(500, 800000 %/% estimand$groups))
  if (facts$best_label == "selection not modelled") {
    for (way in ways_around_choice(release, estimand, how$level)) {
      found <- tryCatch(from_tables(release, way$tables, estimand, how, size, "valid", "", way$chosen),
                        understudy_unsupported = function(e) NULL)
      if (!is.null(found) && any(found$estimates$label %in% c("valid", "range"))) return(found)
    }
  }
  from_tables(release, release$tables, estimand, how, size, facts$best_label, facts$note, FALSE)
}

from_tables <- function(release, tables, estimand, how, size, status, note, chosen) {
  measured <- Filter(function(table) length(table$margin) > 0, tables)
  holding <- any(vapply(tables, holds, NA, names = estimand$margin))
  local <- NULL
  if (is.null(how$prior) && release$about$inference$kind == "noisy" && length(measured) > 1) {
    local <- tryCatch(local_model(release, tables, estimand), understudy_unsupported = function(e) {
      if (!holding) stop(e)
      NULL
    })
  }
  if (is.null(local)) {
    evidence <- gather(release, tables, estimand, how$prior)
    drawn <- draw_evidence(evidence, size)
  } else {
    found <- noise_aware(release, tables, estimand, local, size)
    evidence <- found$evidence
    drawn <- found$drawn
  }
  check_subgroups(estimand, drawn)
  if (!is.null(evidence$modelled) && any(evidence$modelled > MODELLED)) {
    not_in_r(release, how$asked, paste(
      "No measured table determines this. Python gives the range of values that the tables allow, or says what it",
      "assumes; R computes neither."
    ))
  }
  judge(release, estimand, evidence, drawn, how, status, note, chosen)
}

check_subgroups <- function(estimand, drawn) {
  for (inside in inside_of(estimand, drawn$counts)) {
    empty <- mean(inside < 1)
    if (empty > EMPTY) {
      unsupported("the people this question is about may not exist in the data: their number is 0 with probability ",
                  sprintf("%.2f", empty), ", given this release. Ask about a larger group.")
    }
  }
}

judge <- function(release, estimand, evidence, drawn, how, status, note, chosen) {
  level <- how$level
  values <- estimand$evaluate(drawn$shares)
  if (!all(is.finite(values))) {
    unsupported("the release does not determine this quantity: some of its posterior has no finite value.")
  }
  if (!is.null(evidence$shaped)) values[] <- clip(evidence$shaped(values), estimand$bounds)
  judged <- begin_judging(estimand, values, level, c(evidence$warnings, estimand$losses, if (nzchar(note)) note))
  if (is.null(how$prior)) judged <- hold_against_noisy_values(judged, estimand, evidence, level)
  judged <- nobody_and_everybody(judged, estimand, drawn, level)
  judged <- open_bins(judged, estimand, evidence$raw, drawn, level)
  judged <- empty_groups(judged, estimand, drawn, EMPTY)
  counted <- mean(rowSums(drawn$counts))
  rows <- release$about$rows_per_unit
  behind <- if (is.null(evidence$records)) counted else evidence$records
  sampling <- spread_of_records(estimand, drawn, behind)
  judged <- keep_width(judged, sampling, level, estimand$bounds)
  if (rows > 1) judged <- several_rows(judged, sampling, rows, estimand$bounds)
  if (chosen) {
    room <- room_of_choice(release, estimand, colMeans(drawn$shares), behind, sampling * sqrt(rows), judged$spread, rows,
                           level)
    judged <- make_room(judged, room, estimand$bounds)
  }
  if (status == "selection not modelled") judged$labels <- worst_label(judged$labels, status)
  altered <- texts(release$about$inference$disagreements)
  if (length(altered)) {
    judged <- lower_labels(judged, rep(TRUE, length(judged$names)), "model-based", paste0(
      "THE MEASURED TABLES DISAGREE BEYOND THEIR NOISE, so the release may have been altered: ", altered[1]
    ))
  }
  worth <- information_of(estimand, evidence, drawn, judged)
  little <- !is.na(worth) & worth < LITTLE * counted
  judged <- lower_labels(judged, little & !judged$alone & !judged$earned, "model-based", LITTLE_SAID)
  judged <- whole_range(judged, estimand$bounds)
  worth[judged$labels == "range"] <- NA  # no sample would have an interval like it
  left_out <- mean(excluded_of(estimand, drawn$counts))
  if (left_out >= 0.5) {
    judged$warnings <- c(judged$warnings, sprintf(
      "about %s of %s records with a missing value are left out", format(round(left_out), big.mark = ","),
      format(round(counted), big.mark = ",")
    ))
  }
  answer_of(estimand, level = level, centre = judged$centre, low = judged$low, high = judged$high,
            spread = judged$spread, information = worth, labels = judged$labels, warnings = unique(judged$warnings),
            method = evidence$method, records = evidence$records)
}

# The size of a sample with the same information as each estimate: the variance that would remain if the table itself
# had been published, over the variance there is.
information_of <- function(estimand, evidence, drawn, judged) {
  values <- estimand$evaluate(drawn$shares)
  other <- estimand$evaluate(drawn$again)
  records <- if (is.null(evidence$records)) mean(rowSums(drawn$counts)) else evidence$records
  variance <- pmax(apply(values, 2, stats::var), judged$spread^2)
  kept <- pmin(pmax(colMeans((values - other)^2) / 2 / variance, 0), 1)
  worth <- kept * records
  worth[!is.finite(kept) | judged$by_prior | judged$labels == "not determined"] <- NA
  worth
}

answer_of <- function(estimand, level, centre, low, high, spread, information, labels, warnings, method, records) {
  rows <- data.frame(
    name = estimand$names, estimate = centre, standard_error = spread, low = low, high = high,
    information = information, label = labels, stringsAsFactors = FALSE, row.names = NULL
  )
  structure(list(
    question = estimand$question$text, kind = estimand$question$kind, estimates = rows, level = level, method = method,
    records = records, warnings = as.character(warnings), axes = estimand$axes
  ), class = "understudy_answer")
}

# A bound inside a bin: from the answer about people who surely meet the condition, and about those who may.
between_edges <- function(question, cuts, least, most) {
  part <- mean(vapply(cuts, function(cut) cut$part, 0))
  names <- sort(unique(vapply(cuts, function(cut) cut$name, "")))
  upper <- most$estimates
  lower <- if (is.null(least)) transform(upper, estimate = 0, low = 0, high = 0) else least$estimates
  rows <- upper
  rows$estimate <- lower$estimate + part * (upper$estimate - lower$estimate)
  rows$low <- lower$low
  rows$high <- pmax(lower$high, upper$high)
  rows$standard_error <- pmax(if (is.null(least)) upper$standard_error else lower$standard_error, upper$standard_error)
  rows$information <- NA_real_
  labels <- if (is.null(least)) upper$label else worst_label(lower$label, upper$label)
  rows$label <- worst_label(labels, "range")
  said <- paste0("a bound lies inside a bin of ", paste(names, collapse = ", "),
                 ": the interval allows for every position of people inside that bin")
  most$question <- question$text
  most$estimates <- rows
  most$warnings <- unique(c(least$warnings, most$warnings, said))
  most
}

as.data.frame.understudy_answer <- function(x, row.names = NULL, optional = FALSE, ...) {
  rows <- x$estimates
  if (length(x$axes)) {
    levels <- rev(expand.grid(rev(x$axes), KEEP.OUT.ATTRS = FALSE, stringsAsFactors = TRUE))
    rows <- cbind(levels, rows)
  }
  rows$level <- x$level
  if (!is.null(row.names)) rownames(rows) <- row.names
  rows
}

print.understudy_answer <- function(x, digits = 4, ...) {
  cat(x$question, "\n", sep = "")
  cat("Method:   ", x$method, "\n", sep = "")
  cat("Validity: ", paste(unique(x$estimates$label), collapse = ", "), "\n", sep = "")
  cat("Records:  ", if (is.null(x$records)) "not public" else format(x$records, big.mark = ","), "\n", sep = "")
  shown <- x$estimates
  names(shown)[4:5] <- paste0(format(100 * x$level), "% ", c("from", "to"))
  shown$information <- round(shown$information)
  print(shown, digits = digits, row.names = FALSE)
  for (place in seq_along(x$warnings)) cat("[", place, "] ", x$warnings[place], ".\n", sep = "")
  invisible(x)
}
