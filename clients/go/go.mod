module kafkacluster

go 1.22
