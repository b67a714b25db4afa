"""Virtual machines for trials on OpenStack: flavor, image, group, and servers, and what nova must allow."""
