"""The images, the compose file and the kit's containers, on a real Docker daemon.

``make container`` builds the images and runs these tests; :mod:`.dockers` is the command line of
Docker in tests, and :mod:`.page` runs docs/containers.md.
"""
