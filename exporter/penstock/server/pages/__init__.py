"""The status page: HTML for the person on call, made on the server from what the last polls left."""
