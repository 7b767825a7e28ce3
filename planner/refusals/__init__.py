"""Queries whose held answers could differ from MySQL's next one: each rule refuses one kind."""
