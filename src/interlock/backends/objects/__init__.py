"""Objects as files of a directory (`ports.objects`)."""
