"""Lives of an archive and of its nights: the product's own reader, rules and publisher, without Spark."""
