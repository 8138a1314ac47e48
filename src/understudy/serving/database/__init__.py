"""What the server remembers: people, projects, jobs, answers and a log, in SQLite or PostgreSQL."""
