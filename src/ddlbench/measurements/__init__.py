"""What was measured: records, the store that keeps them, statistics, tables, facts and provenance."""
