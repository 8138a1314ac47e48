# Questions, in the same small grammar as in Python. Nothing is evaluated: a text is read token by token.

HERE <- c("proportion", "mean", "crosstab", "difference")
ELSEWHERE <- c("count", "sum", "quantile", "median", "std", "variance", "gini", "poverty_rate", "correlation",
               "association", "ratio")
EXAMPLE <- "proportion(sex == 'F'), mean(age, where=sex == 'F'), crosstab(sex, smokes)"
TOKEN <- paste0(
  "\\s+|'(?:[^'\\\\]|\\\\.)*'|\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]+`|(?:[0-9]+\\.?[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?|",
  "[\\p{L}_][\\p{L}\\p{N}_]*|==|!=|<=|>=|[-<>=(),/{}\\[\\]~]|."
)

# What R does not compute is never computed otherwise: the reason is told, with the command that answers.
not_in_r <- function(release, asked, why) {
  call <- shell_call(release, asked)
  stop(structure(class = c("understudy_not_in_r", "error", "condition"), list(
    message = paste0(why, " The command line answers: ", call), call = NULL, command = call
  )))
}

shell_call <- function(release, asked) {
  words <- c("infer", "RELEASE", shQuote(asked$question, "sh"))
  if (!is.null(asked$where)) words <- c(words, "--where", shQuote(asked$where, "sh"))
  for (name in asked$by) words <- c(words, "--by", shQuote(name, "sh"))
  if (!is.null(asked$level) && asked$level != 0.95) words <- c(words, "--level", format(asked$level, digits = 15))
  if (!is.null(asked$prior)) words <- c(words, "--prior", format(asked$prior, digits = 15))
  if (identical(asked$weighted, FALSE)) words <- c(words, "--unweighted")
  paste(c("understudy", words), collapse = " ")
}

tokens_of <- function(text) {
  found <- regmatches(text, gregexpr(TOKEN, enc2utf8(text), perl = TRUE))[[1]]
  found[!grepl("^\\s+$", found)]
}

# A reader keeps its place in an environment; `peek`, `take` and `expect` are all that moves it.
reader_of <- function(text) {
  state <- new.env()
  state$text <- text
  state$tokens <- tokens_of(text)
  state$place <- 1
  state
}
peek <- function(state, ahead = 0) {
  at <- state$place + ahead
  if (at > length(state$tokens)) "" else state$tokens[at]
}
take <- function(state) {
  token <- peek(state)
  state$place <- state$place + 1
  token
}
expect <- function(state, token) {
  if (peek(state) != token) unreadable(state)
  take(state)
}
unreadable <- function(state) {
  near <- paste(utils::head(state$tokens[-seq_len(state$place - 1)], 4), collapse = " ")
  where <- if (nzchar(near)) paste0(" from '", near, "' on") else ": its end is missing"
  if (state$place == 1 && nzchar(near)) where <- ""
  refuse("'", state$text, "' cannot be read", where, ". Ask for example ", EXAMPLE,
         ". Conditions are joined by and, or, not; levels are in quotes; names with spaces are in backticks.")
}

is_name <- function(token) grepl("^[\\p{L}_`]", token, perl = TRUE) && !token %in% c("and", "or", "not", "in")
is_constant <- function(token) {
  grepl("^['\"0-9.]", token) || token %in% c("True", "False", "-")
}

read_attribute <- function(state, release) {
  token <- take(state)
  if (!is_name(token)) {
    state$place <- state$place - 1
    unreadable(state)
  }
  name <- gsub("^`|`$", "", token)
  if (!name %in% release$names) {
    if (name %in% names(release$columns)) {
      refuse("'", name, "' is computed from other columns after synthesis; ask about those instead.")
    }
    near <- agrep(name, release$names, ignore.case = TRUE, value = TRUE)
    refuse("there is no attribute '", name, "'", if (length(near)) paste0("; did you mean '", near[1], "'?") else ".",
           " There are: ", paste(utils::head(release$names, 20), collapse = ", "), ".")
  }
  name
}

read_constant <- function(state) {
  token <- take(state)
  if (token == "-") return(-as.numeric(take_number(state)))
  if (token %in% c("True", "False")) return(token == "True")
  if (grepl("^['\"]", token)) return(gsub("\\\\(.)", "\\1", substr(token, 2, nchar(token) - 1)))
  if (!grepl("^[0-9.]", token)) {
    state$place <- state$place - 1
    unreadable(state)
  }
  as.numeric(token)
}
take_number <- function(state) {
  if (!grepl("^[0-9.]", peek(state))) unreadable(state)
  take(state)
}

level_text <- function(value) {
  if (is.logical(value)) return(if (value) "true" else "false")
  if (is.character(value)) return(value)
  if (value == round(value) && abs(value) < 1e15) format(value, scientific = FALSE, digits = 15, trim = TRUE) else {
    format(value, digits = 15, trim = TRUE)
  }
}

read_question <- function(release, asked) {
  text <- asked$question
  if (!is.character(text) || length(text) != 1 || is.na(text) || !nzchar(trimws(text))) {
    refuse("a question must be one text such as ", EXAMPLE, ".")
  }
  bare <- gsub("'[^']*'|\"[^\"]*\"|`[^`]*`", "", text)
  if (grepl("~", bare, fixed = TRUE)) not_in_r(release, asked, "Regressions are not computed in R.")
  state <- reader_of(text)
  atoms <- read_atoms(state, release, asked)
  if (peek(state) != "") unreadable(state)
  if (!is.null(asked$where)) {
    inner <- reader_of(asked$where)
    group <- read_condition(inner, release)
    if (peek(inner) != "") unreadable(inner)
    atoms <- lapply(atoms, function(atom) {
      atom$where <- if (is.null(atom$where)) group else list(type = "and", parts = list(atom$where, group))
      atom
    })
  }
  if (length(asked$by)) {
    if (length(atoms[[1]]$by)) refuse("'", text, "' says by twice.")
    unknown <- setdiff(asked$by, release$names)
    if (length(unknown)) refuse("there is no attribute '", unknown[1], "'.")
    atoms <- lapply(atoms, function(atom) check_by(atom, asked$by, text))
  }
  if (length(atoms) > 1 && any(vapply(atoms, function(atom) length(atom$by) > 0, NA))) {
    refuse("'", text, "': by goes with one quantity; ask for a difference in each group by where.")
  }
  for (atom in atoms) {
    open <- cuts_of(atom$where)
    if (length(atoms) > 1) open <- c(open, cuts_of(atom$condition))
    if (length(open)) refuse(open[[1]]$said)
  }
  kind <- if (length(atoms) > 1) "difference" else atoms[[1]]$kind
  list(text = trimws(text), atoms = atoms, kind = kind, used = unique(unlist(lapply(atoms, used_by))))
}

used_by <- function(atom) unique(c(atom$names, atom$by, names_in(atom$condition), names_in(atom$where)))

read_atoms <- function(state, release, asked) {
  if (peek(state) == "difference" && peek(state, 1) == "(") {
    take(state)
    take(state)
    first <- read_atom(state, release, asked)
    expect(state, ",")
    second <- read_atom(state, release, asked)
    expect(state, ")")
    return(check_pair(state$text, first, second))
  }
  first <- read_atom(state, release, asked)
  if (peek(state) == "/") not_in_r(release, asked, "Ratios are not computed in R.")
  if (peek(state) != "-") return(list(first))
  take(state)
  check_pair(state$text, first, read_atom(state, release, asked))
}

check_pair <- function(text, first, second) {
  if (first$kind == "crosstab" || second$kind == "crosstab") {
    refuse("'", text, "': a difference is between two proportions or means.")
  }
  if (first$kind != second$kind) refuse("'", text, "': a difference is between two quantities of one kind.")
  list(first, second)
}

read_atom <- function(state, release, asked) {
  kind <- take(state)
  if (kind %in% ELSEWHERE) not_in_r(release, asked, paste0("'", kind, "' is not computed in R."))
  if (!kind %in% HERE || kind == "difference" || peek(state) != "(") {
    state$place <- state$place - 1
    unreadable(state)
  }
  take(state)
  atom <- list(kind = kind, text = state$text, names = character(), by = character(), percent = "")
  if (kind == "proportion") {
    atom$condition <- read_condition(state, release)
  } else {
    atom$names <- read_attribute(state, release)
    if (kind == "mean") need_numbers(release$attributes[[atom$names]])
    while (peek(state) == "," && peek(state, 2) != "=") {
      take(state)
      atom$names <- c(atom$names, read_attribute(state, release))
    }
    if (kind == "mean" && length(atom$names) != 1) refuse("'", state$text, "': mean() takes an attribute.")
    if (anyDuplicated(atom$names)) refuse("'", state$text, "': ", kind, "() takes different attributes.")
  }
  while (peek(state) == ",") {
    take(state)
    atom <- read_keyword(state, release, atom)
  }
  expect(state, ")")
  if (nzchar(atom$percent) && length(atom$names) < 2) {
    refuse("'", state$text, "': percentages by row or column need two attributes.")
  }
  if (length(atom$by)) atom <- check_by(atom, atom$by, state$text)
  atom
}

read_keyword <- function(state, release, atom) {
  word <- take(state)
  if (peek(state) != "=" || !word %in% c("where", "by", "percent")) {
    refuse("'", state$text, "': ", atom$kind, "() knows the keywords where and by only, as in where=sex == 'F'.")
  }
  take(state)
  if (word == "where") {
    if (!is.null(atom$where)) refuse("'", state$text, "' says where twice; join conditions by and.")
    atom$where <- read_condition(state, release)
  } else if (word == "by") {
    if (length(atom$by)) refuse("'", state$text, "' says by twice; list attributes as in by=[a, b].")
    closing <- c("[" = "]", "(" = ")")[peek(state)]
    if (is.na(closing)) {
      atom$by <- read_attribute(state, release)
    } else {
      take(state)
      atom$by <- read_attribute(state, release)
      while (peek(state) == ",") {
        take(state)
        atom$by <- c(atom$by, read_attribute(state, release))
      }
      expect(state, closing)
    }
  } else {
    said <- read_constant(state)
    if (atom$kind != "crosstab" || !said %in% c("total", "row", "column")) {
      refuse("'", state$text, "': percent goes with crosstab and must be 'total', 'row' or 'column'.")
    }
    atom$percent <- if (said == "total") "" else said
  }
  atom
}

check_by <- function(atom, by, text) {
  if (atom$kind == "crosstab") refuse("'", text, "': by goes with proportion and mean; of a crosstab there is no table.")
  if (anyDuplicated(by) || any(by %in% atom$names)) {
    refuse("'", text, "': by takes different attributes, which the quantity is not about.")
  }
  atom$by <- by
  atom
}

need_numbers <- function(attribute) {
  if (length(attribute$levels) && !length(attribute$level_numbers)) {
    refuse("'", attribute$name, "' has levels, not numbers; ask for proportions of its levels.")
  }
}

# Conditions: `among` (an attribute has one of some codes), `missing`, and those joined by and, or, not.

read_condition <- function(state, release, depth = 0) {
  if (depth > 100) refuse("conditions are nested more than 100 deep; write them with fewer brackets.")
  parts <- list(read_and(state, release, depth))
  while (peek(state) == "or") {
    take(state)
    parts <- c(parts, list(read_and(state, release, depth)))
  }
  if (length(parts) == 1) parts[[1]] else list(type = "or", parts = parts)
}

read_and <- function(state, release, depth) {
  parts <- list(read_not(state, release, depth))
  while (peek(state) == "and") {
    take(state)
    parts <- c(parts, list(read_not(state, release, depth)))
  }
  if (length(parts) == 1) parts[[1]] else list(type = "and", parts = parts)
}

read_not <- function(state, release, depth) {
  if (depth > 100) refuse("conditions are nested more than 100 deep; write them with fewer brackets.")
  if (peek(state) == "not") {
    take(state)
    return(list(type = "not", parts = list(read_not(state, release, depth + 1))))
  }
  if (peek(state) == "(") {
    take(state)
    inner <- read_condition(state, release, depth + 1)
    expect(state, ")")
    return(inner)
  }
  if (peek(state) == "missing" && peek(state, 1) == "(") {
    take(state)
    take(state)
    attribute <- release$attributes[[read_attribute(state, release)]]
    expect(state, ")")
    if (!isTRUE(attribute$missing)) {
      refuse("'", state$text, "': '", attribute$name, "' has no missing values; its schema does not allow them.")
    }
    return(list(type = "missing", name = attribute$name, code = attribute$size - 1))
  }
  read_comparison(state, release)
}

read_operand <- function(state, release) {
  if (is_constant(peek(state))) list(value = read_constant(state)) else list(name = read_attribute(state, release))
}

read_comparison <- function(state, release) {
  left <- read_operand(state, release)
  parts <- list()
  repeat {
    sign <- peek(state)
    if (sign == "not" && peek(state, 1) == "in") {
      take(state)
      sign <- "not in"
    }
    if (!sign %in% c("==", "!=", "<", "<=", ">", ">=", "in", "not in")) break
    take(state)
    if (sign %in% c("in", "not in")) {
      if (is.null(left$name)) unreadable(state)
      parts <- c(parts, list(read_membership(state, release, left$name, sign)))
      next
    }
    right <- read_operand(state, release)
    if (is.null(left$name) == is.null(right$name)) {
      refuse("'", state$text, "': compare an attribute with a value, as in sex == 'F' (levels in quotes).")
    }
    mirrored <- c("<" = ">", ">" = "<", "<=" = ">=", ">=" = "<=", "==" = "==", "!=" = "!=")
    name <- if (is.null(left$name)) right$name else left$name
    value <- if (is.null(left$name)) left$value else right$value
    symbol <- if (is.null(left$name)) unname(mirrored[sign]) else sign
    parts <- c(parts, list(compared(release$attributes[[name]], symbol, value, state$text)))
    left <- right
  }
  if (!length(parts)) {
    if (peek(state) == "=") {
      refuse("'", state$text, "': write == to compare; a single = is for where= and by= only.")
    }
    unreadable(state)
  }
  if (length(parts) == 1) parts[[1]] else list(type = "and", parts = parts)
}

read_membership <- function(state, release, name, sign) {
  closing <- c("[" = "]", "(" = ")", "{" = "}")[peek(state)]
  if (is.na(closing)) refuse("'", state$text, "': write the values in brackets, as in region in ['North', 'West'].")
  take(state)
  attribute <- release$attributes[[name]]
  codes <- equal_codes(attribute, read_constant(state), state$text)
  while (peek(state) == ",") {
    take(state)
    if (peek(state) == closing) break
    codes <- c(codes, equal_codes(attribute, read_constant(state), state$text))
  }
  expect(state, closing)
  among <- list(type = "among", name = name, codes = sort(unique(codes)))
  if (sign == "in") among else list(type = "not", parts = list(among))
}

compared <- function(attribute, symbol, value, text) {
  if (symbol %in% c("==", "!=")) {
    among <- list(type = "among", name = attribute$name, codes = equal_codes(attribute, value, text))
    return(if (symbol == "==") among else list(type = "not", parts = list(among)))
  }
  upwards <- symbol %in% c(">", ">=")
  bins <- attribute$bins
  known <- numbers(attribute$level_numbers)
  if (length(known) && is.numeric(value)) {
    first <- sum(known < value | (known == value & symbol %in% c("<=", ">")))
  } else if (length(attribute$levels)) {
    if (!isTRUE(attribute$ordered)) {
      refuse("'", text, "': the levels of '", attribute$name, "' have no order; use == or in.")
    }
    place <- match(level_text(value), texts(attribute$levels))
    if (is.na(place)) unknown_level(attribute, level_text(value))
    first <- if (symbol %in% c("<", ">=")) place - 1 else place
  } else {
    found <- edge_of(attribute, symbol, value, text)
    if (!is.null(found$cut)) {
      said <- paste0("'", text, "': ", symbol, " ", value, " cuts through a bin of '", attribute$name,
                     "', and the release does not know where in its bin a value lies. Bounds can be ",
                     listed_edges(attribute), ".")
      codes <- if (upwards) seq_len(bins)[-seq_len(found$cut + 1)] - 1 else seq_len(found$cut) - 1
      return(list(type = "among", name = attribute$name, codes = codes, cut = found$cut,
                  part = if (upwards) 1 - found$below else found$below, said = said))
    }
    first <- found$first
  }
  codes <- seq_len(bins) - 1
  list(type = "among", name = attribute$name, codes = if (upwards) codes[codes >= first] else codes[codes < first])
}

unknown_level <- function(attribute, wanted) {
  known <- texts(attribute$code_names)
  if (isTRUE(attribute$missing)) known <- utils::head(known, -1)
  refuse("'", attribute$name, "' has no level '", wanted, "'. It has: ", paste(utils::head(known, 20), collapse = ", "),
         ".")
}

listed_edges <- function(attribute) {
  marks <- if (length(attribute$levels)) texts(attribute$levels) else texts(attribute$edge_texts)
  paste0(paste(utils::head(marks, 14), collapse = ", "), if (length(marks) > 14) ", ..." else "")
}

equal_codes <- function(attribute, value, text) {
  wanted <- level_text(value)
  code <- match(wanted, texts(attribute$code_names))
  if (!is.na(code)) {
    if (isTRUE(attribute$missing) && code == attribute$size) {
      refuse("'", text, "': ask for missing values with missing(", attribute$name, ").")
    }
    return(code - 1)
  }
  known <- numbers(attribute$level_numbers)
  if (is.numeric(value) && value %in% known) return(match(value, known) - 1)
  for (place in seq_along(attribute$special)) {
    one <- attribute$special[[place]]
    own <- if (!is.null(one$text)) one$text else if (attribute$kind == "date") {
      format(as.Date(one$code, origin = "1970-01-01"))
    } else {
      level_text(one$code)
    }
    if (own == wanted) return(attribute$bins + place - 1)
  }
  if (length(attribute$levels) || attribute$kind == "date" || is.character(value)) unknown_level(attribute, wanted)
  refuse("'", text, "': the release knows '", attribute$name,
         "' by bins and cannot tell single values apart; ask for a range between the edges ", listed_edges(attribute),
         ".")
}

# The number of bins below a bound; or the bin that it cuts through, and the share of it below, by density.
edge_of <- function(attribute, symbol, value, text) {
  whole <- isTRUE(attribute$whole)
  if (attribute$kind == "date") {
    bound <- tryCatch(as.numeric(as.Date(as.character(value), format = "%Y-%m-%d")), error = function(e) NA)
    if (is.na(bound)) refuse("'", text, "': write dates as '2026-01-31'.")
  } else {
    if (!is.numeric(value)) refuse("'", text, "': '", attribute$name, "' is compared with a number.")
    bound <- value
  }
  edges <- numbers(attribute$edges)
  last <- edges[length(edges)]
  if (symbol %in% c("<=", ">")) {
    if (bound == last) return(list(first = attribute$bins))
    if (whole) bound <- bound + 1
  }
  inner <- utils::head(edges, -1)
  if (bound %in% inner) return(list(first = match(bound, inner) - 1))
  if (bound <= edges[1]) return(list(first = 0))
  if (bound > last || (bound == last && !whole)) return(list(first = attribute$bins))
  cut <- sum(inner < bound) - 1
  nodes <- nodes_of(attribute, cut + 1)
  list(cut = cut, below = sum(nodes$weights[nodes$points < bound]))
}

# Points and weights inside a bin: all whole numbers of a short bin, equal shares of any other.
nodes_of <- function(attribute, bin) {
  low <- numbers(attribute$low)[bin]
  high <- numbers(attribute$high)[bin]
  if (!is.null(attribute$inside)) {
    cells <- numbers(attribute$inside[[1]])
    shares <- numbers(attribute$inside[[2]])
    first <- sum(cells < low) + 1
    after <- sum(cells < high)
    kept <- first:after
    middle <- (cells[kept] + cells[kept + 1] - as.numeric(isTRUE(attribute$whole))) / 2
    return(list(points = pmax(middle, low), weights = shares[kept] / sum(shares[kept])))
  }
  if (isTRUE(attribute$whole) && high - low <= 4096) {
    points <- seq(low, high - 1)
    weights <- if (isTRUE(attribute$log)) log((points + 1) / points) else rep(1, length(points))
    return(list(points = points, weights = weights / sum(weights)))
  }
  middle <- (seq_len(64) - 0.5) / 64
  points <- if (isTRUE(attribute$log)) low * (high / low)^middle else low + (high - low) * middle
  if (isTRUE(attribute$whole)) points <- floor(points)
  list(points = points, weights = rep(1 / 64, 64))
}

truth_of <- function(condition, codes) {
  switch(condition$type,
    among = codes[, condition$name] %in% condition$codes,
    missing = codes[, condition$name] == condition$code,
    not = !truth_of(condition$parts[[1]], codes),
    and = Reduce(`&`, lapply(condition$parts, truth_of, codes)),
    or = Reduce(`|`, lapply(condition$parts, truth_of, codes))
  )
}

cuts_of <- function(condition) {
  if (is.null(condition)) return(list())
  if (condition$type == "among") return(if (is.null(condition$cut)) list() else list(condition))
  if (condition$type == "missing") return(list())
  found <- do.call(c, lapply(condition$parts, cuts_of))
  if (condition$type != "not") return(found)
  # What is turned round is met by the rest of the bin.
  lapply(found, function(cut) {
    cut$part <- 1 - cut$part
    cut
  })
}

# The same condition without the people of whom it is open whether they are meant; or with all of them.
settled_condition <- function(condition, most) {
  if (is.null(condition) || condition$type == "missing") return(condition)
  if (condition$type == "among") {
    codes <- if (most && !is.null(condition$cut)) sort(c(condition$codes, condition$cut)) else condition$codes
    return(list(type = "among", name = condition$name, codes = codes))
  }
  inner <- if (condition$type == "not") !most else most
  condition$parts <- lapply(condition$parts, settled_condition, inner)
  condition
}

names_in <- function(condition) {
  if (is.null(condition)) return(character())
  if (!is.null(condition$parts)) unique(unlist(lapply(condition$parts, names_in))) else condition$name
}

asks_missing <- function(condition) {
  if (is.null(condition) || condition$type == "among") return(character())
  if (condition$type == "missing") return(condition$name)
  unique(unlist(lapply(condition$parts, asks_missing)))
}
