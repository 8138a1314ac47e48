"""Apache Spark: tables past one machine, counted where they are."""

from understudy.engines.systems.spark.source import SparkSource as SparkSource
