library(testthat)
library(understudyr)

test_check("understudyr")
