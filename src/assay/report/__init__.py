"""What people look at: tables, charts, pages."""
