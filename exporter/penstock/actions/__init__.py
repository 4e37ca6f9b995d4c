"""What an operator can do, and what it does to messages: data, and which of it fits. Penstock never does any of it."""
