"""The report: figures from the tables, each with the SQL behind it, as JSON and as one HTML file."""
