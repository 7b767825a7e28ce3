# What one site keeps is not for the other, whose pages are to be made from the database.
config.cache_store = :null_store
config.paths["tmp"] = Dir.mktmpdir("redmine")
config.logger = Logger.new($stdout, level: Logger::WARN)
