"""Consensus methods that DABA is compared with: ADMM on cameras, Douglas–Rachford on points."""
