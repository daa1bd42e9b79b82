"""Who makes records. One file a source."""
