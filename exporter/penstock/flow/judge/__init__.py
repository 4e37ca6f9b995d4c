"""Judgement: which conditions hold on queues and clients, with cause, beginning and the numbers they rest on."""
