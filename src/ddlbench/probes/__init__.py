"""What links, transports and container runtimes carry: message sizes, collectives, start-up."""
