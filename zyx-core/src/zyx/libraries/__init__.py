"""What vendors' libraries compute in one call, recognised in nests."""
