-- As a web request of an application whose driver has autocommit off: three lookups in text, and a COMMIT. The rollback
-- of a pool is the same.

sysbench.cmdline.options = {
   keys = {"The largest key", 10000},
}

function thread_init()
   con = sysbench.sql.driver():connect()
   con:query("SET autocommit = 0")
end

function event()
   for _ = 1, 3 do
      con:query("SELECT c FROM sbtest1 WHERE id = " .. sysbench.rand.uniform(1, sysbench.opt.keys))
   end
   con:query("COMMIT")
end

function thread_done()
   con:disconnect()
end
