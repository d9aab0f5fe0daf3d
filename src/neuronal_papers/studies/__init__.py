"""Questions of our own, which no table or figure of the papers asks; each is listed with the paper it is about."""
