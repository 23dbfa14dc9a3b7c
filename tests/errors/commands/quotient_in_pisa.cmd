retrograd compile quotient.rga --emit pisa
