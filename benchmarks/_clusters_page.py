def write_page(lines):
    print(lines[-1] if lines else None)
