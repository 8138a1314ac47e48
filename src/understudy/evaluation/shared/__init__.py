"""What several measures or attacks use, and their registries."""
