"""What an answer says, as blocks, and how a terminal and a page show them."""
