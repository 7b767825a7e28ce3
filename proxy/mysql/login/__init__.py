"""How clients of MySQL's protocol log in, here and at MySQL."""
