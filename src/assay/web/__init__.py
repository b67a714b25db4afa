"""The same in a browser: pages and the JSON API over the library, without a computation of their own."""
