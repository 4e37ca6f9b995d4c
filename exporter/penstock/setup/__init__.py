"""What `penstock init` changes for a broker and for Penstock: planned first, then shown, done, and taken back."""
