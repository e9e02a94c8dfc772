"""Reading and writing data sets: formats, readers, published layouts, one way to open them."""
