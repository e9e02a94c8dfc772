"""Everything that can be read: formats, published data sets, one way to open them."""
