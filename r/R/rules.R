# Combining rules for tables that were made without noise (docs/theory/combining-rules.md of understudy): no draws, so
# that the numbers are those of Python.

FEW_ROWS <- 30
FEW_OF_A_KIND <- 20
RULE_OF <- c(simple = "T_s", posterior = "T_s_posterior", partial = "T_p")
BY_WORD <- paste("valid only if the tables were made as stated, without noise; on differentially private tables such",
                 "rules covered 70 to 93 percent")

by_rule <- function(release, estimand, asked, level, synthesis, records, outside) {
  warnings <- character()
  label <- release$about$inference$best_label
  if (outside) {
    if (is.null(synthesis)) {
      unsupported("this release states neither noisy counts nor the law of its draws, so no valid interval follows from ",
                  "it alone. If you know how it was made, say so with synthesis = 'simple', 'posterior' or 'partial' ",
                  "and records =.")
    }
    if (!is.character(synthesis) || length(synthesis) != 1 || !synthesis %in% names(RULE_OF)) {
      refuse("synthesis must be one of ", paste(names(RULE_OF), collapse = ", "), ".")
    }
    if (!is.numeric(records) || length(records) != 1 || is.na(records) || records < 1 || records != round(records)) {
      refuse("say how many records the synthetic tables were made from (records =, a whole number).")
    }
    warnings <- paste("nothing in this release says how it was made; the interval holds only if it was made as you said,",
                      "and it is not noise-aware: do not use it for differentially private data")
    if (label != "refused" || release$about$inference$kind == "unknown") label <- "model-based"
  }
  if (label == "refused") {
    unsupported("this question is refused for method '", release$about$method, "': ", release$about$inference$note, ".")
  }
  if (is.null(records)) {
    unsupported("the number of records behind this release is not public, and tables drawn without noise do not tell ",
                "it; the combining rules need it.")
  }
  rule <- RULE_OF[[synthesis]]
  rows <- release$rows
  if (length(unique(rows)) > 1) unsupported("the combining rules are for synthetic tables of one size.")
  copies <- length(rows)
  rows <- rows[1]
  if (rule == "T_p" && copies < 2) refuse("rule T_p needs at least two synthetic tables; there is ", copies, ".")
  kappa <- rows / records
  counts <- do.call(rbind, lapply(seq_len(copies), function(copy) {
    own <- counts_of(release, copy, estimand$margin)
    as.numeric(rowsum(own, estimand$labels)[as.character(seq_len(estimand$groups) - 1), 1])
  }))
  groups <- inside_groups(estimand, counts)
  inside <- inside_of(estimand, counts)
  if (min(unlist(inside)) < 1 || (!is.null(groups) && min(groups) < 1)) {
    unsupported("the people this question is about are in none of the rows of a synthetic table.")
  }
  allowed <- allowed_cells(release, estimand$margin)
  possible <- as.numeric(rowsum(allowed * 1, estimand$labels)[as.character(seq_len(estimand$groups) - 1), 1]) > 0
  few <- min(unlist(inside)) < FEW_ROWS
  if (few) {
    warnings <- c(warnings, paste("combining rules are for large samples, and this rests on fewer than", FEW_ROWS,
                                  "rows of a table"))
  } else if (is_rare(estimand, counts, possible)) {
    few <- TRUE
    warnings <- c(warnings, paste("combining rules take shares as normal, and in some table fewer than", FEW_OF_A_KIND,
                                  "rows have the value asked for, or do not have it: 95 percent intervals covered 72 to",
                                  "90 percent where 2 to 10 were expected"))
  }
  values <- estimand$evaluate(counts / rows)
  nearby <- sweep(counts, 2, 0.5 * possible, `+`)
  variances <- influence_variance(estimand, nearby / rowSums(nearby)) / rows
  found <- combined(values, variances, rule, kappa)
  at <- (1 + level) / 2
  factor <- ifelse(is.finite(found$freedom), stats::qt(at, pmin(found$freedom, 1e300)), stats::qnorm(at))
  half <- factor * sqrt(found$variance)
  if (few) label <- worst_label(label, "model-based")
  note <- if (outside) BY_WORD else release$about$inference$note
  if (nzchar(note)) warnings <- c(warnings, note)
  if (estimand$binned) {
    label <- "model-based"
    warnings <- c(warnings, estimand$losses)
  }
  if (release$about$rows_per_unit > 1) {
    label <- "model-based"
    warnings <- c(warnings, "a unit may have several rows; they are treated as independent, so intervals may be too short")
  }
  worth <- pmin(pmax(colMeans(variances) * kappa / found$variance, 0), 1) * records
  answer_of(estimand, level = level, centre = found$value, low = clip(found$value - half, estimand$bounds),
            high = clip(found$value + half, estimand$bounds), spread = sqrt(found$variance), information = worth,
            labels = rep(label, length(estimand$names)), warnings = unique(c(warnings, estimand$losses)),
            method = paste("combining rule", rule, "over", copies, "table(s)"),
            records = if (outside || !is.null(release$records)) records)
}

is_rare <- function(estimand, counts, possible) {
  if (!estimand$parts[[1]]$kind %in% c("proportion", "crosstab")) return(FALSE)
  any(vapply(estimand$members, function(member) {
    can_occur <- own_of(matrix(possible * 1, 1) %*% member)[1, ] > 0
    any(own_of(counts %*% member)[, can_occur] < FEW_OF_A_KIND)
  }, NA))
}

# The variance of the influence of one record on the quantity, for each row of shares.
influence_variance <- function(estimand, shares) {
  step <- 1e-5
  size <- ncol(shares)
  t(vapply(seq_len(nrow(shares)), function(one) {
    row <- matrix(shares[one, ], size, size, byrow = TRUE)
    upper <- row + step * diag(size)
    lower <- pmax(row - step * diag(size), 0)
    slopes <- (estimand$evaluate(upper) - estimand$evaluate(lower)) / apply(upper - lower, 1, max)
    mean <- as.numeric(shares[one, ] %*% slopes)
    as.numeric(shares[one, ] %*% sweep(slopes, 2, mean)^2)
  }, numeric(length(estimand$names)))) |> matrix(nrow = nrow(shares))
}

combined <- function(values, variances, rule, kappa) {
  m <- nrow(values)
  within <- colMeans(variances)
  between <- if (m > 1) apply(values, 2, stats::var) else rep(0, ncol(values))
  infinite <- rep(Inf, ncol(values))
  found <- switch(rule,
    T_s = list(variance = within * (kappa + 1 / m), freedom = infinite),
    T_s_posterior = list(variance = within * (kappa + (1 + kappa) / m), freedom = infinite),
    T_p = list(variance = between / m + within,
               freedom = (m - 1) * (1 + ifelse(between > 0, within * m / between, Inf))^2)
  )
  c(list(value = colMeans(values)), found)
}
