-- One statement with one integer parameter, drawn uniformly from 1 to --keys; prepared once a connection.

sysbench.cmdline.options = {
   statement = {"A SELECT with one ?", ""},
   keys = {"The largest key", 100},
}

function thread_init()
   drv = sysbench.sql.driver()
   con = drv:connect()
   stmt = con:prepare(sysbench.opt.statement)
   key = stmt:bind_create(sysbench.sql.type.BIGINT)
   stmt:bind_param(key)
end

function event()
   key:set(sysbench.rand.uniform(1, sysbench.opt.keys))
   local rows = stmt:execute()
   rows:free()
end

function thread_done()
   stmt:close()
   con:disconnect()
end
