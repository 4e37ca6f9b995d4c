"""Judgement: which conditions hold on queues and clients, each with its cause, since when, and the numbers it rests on."""
