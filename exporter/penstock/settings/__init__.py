"""What operators say of queues and clients, and the constants of the rules. The room `config` reads their files."""
