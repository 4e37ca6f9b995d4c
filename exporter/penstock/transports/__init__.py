"""Ways to carry requests to a broker and answers back: Jolokia, JMX, recordings.

Knows no request and no answer by its content.
"""
