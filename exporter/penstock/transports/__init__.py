"""Ways to carry requests to a broker and answers back: Jolokia, JMX, recordings."""
