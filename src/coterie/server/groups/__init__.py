"""The group coordinators of brokers."""
