"""Published verdicts as a model: the product's pure rules on values in memory, without files, threads and Spark."""
